//! A boot of a guest whose guests are restored: the probe's order, and what it reports.

use pagetoll_protocol::build;
use pagetoll_protocol::report::{Report, Restore, RestoreUnavailable};
use pagetoll_protocol::step::{RestoreStep, Restored};
use pagetoll_units::Pages;

use super::Line;
use crate::linux::Probe;

/// Repetitions of each line, each with a machine and an image of its own. The median counts: the difference is a timer interrupt,
/// and what the first finds to be set up.
const REPEATS: u32 = 3;
/// Pages of the image of a control: a page of 2 MiB, so that every mechanism can restore it.
pub(super) const CONTROL_PAGES: Pages = Pages(512);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    program: &build::RESTORE_PROBE,
    order: "restore-order",
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreRun {
    /// In the order in which they ran, controls among them.
    pub(super) restores: Vec<Counted>,
    pub(super) unavailable: Vec<RestoreUnavailable>,
}

/// Purpose of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Bill,
    /// Its image lacks a page.
    Control,
}

/// A restore that was counted.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) purpose: Purpose,
    pub(super) restore: Restore,
}

/// The steps of the probe: of every line its control and its repeats.
pub(super) fn steps_of_probe(pages: Pages, lines: &[Line]) -> Vec<RestoreStep> {
    let steps = lines.iter().flat_map(|&Line { mechanism, batch }| {
        let subject = |pages| Restored {
            mechanism,
            batch,
            pages,
        };
        [
            RestoreStep::Control(subject(CONTROL_PAGES)),
            RestoreStep::Bill {
                subject: subject(pages),
                repeats: REPEATS,
            },
        ]
    });
    steps.collect()
}

/// Takes a report of the probe among the findings.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
pub(super) fn take(run: &mut RestoreRun, report: Report) {
    let counted = |purpose, restore| Counted { purpose, restore };
    match report {
        Report::Restore(one) => run.restores.push(counted(Purpose::Bill, one)),
        Report::RestoreControl(one) => run.restores.push(counted(Purpose::Control, one)),
        Report::RestoreUnavailable(report) => run.unavailable.push(report),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::lab::Restore as Mechanism;
    use pagetoll_protocol::step;

    use super::*;

    #[test]
    fn every_line_has_its_control_before_it() {
        let line = |mechanism, batch| Line { mechanism, batch };
        let lines = [line(Mechanism::Read, 1), line(Mechanism::Uffd, 16)];
        let steps = step::order(&steps_of_probe(Pages(1024), &lines));
        assert_eq!(
            steps,
            "control read 1 512\nbill read 1 1024 3\ncontrol uffd 16 512\nbill uffd 16 1024 3\n"
        );
    }
}
