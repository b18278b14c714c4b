//! A boot of a guest whose guests are restored: the probe's order, and what it reports.

use pagetoll_host::Surroundings;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{Hello, Report, Restore, RestoreUnavailable};
use pagetoll_protocol::step::{RestoreStep, Restored};
use pagetoll_units::Pages;

use super::Line;
use crate::draft::Clock;
use crate::error::LabError;
use crate::kvm_host::{self, Materials};
use crate::linux::Probe;
use crate::profile::ProbeProfile;
use crate::request::KernelRequest;

/// Repetitions of each line, each with a machine and an image of its own. The median counts: the difference is a timer interrupt,
/// and what the first finds to be set up.
const REPEATS: u32 = 3;
/// Pages of the image of a control: a page of 2 MiB, so that every mechanism can restore it.
pub(super) const CONTROL_PAGES: Pages = Pages(512);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    name: "restore-probe",
    order: "restore-order",
    build: build::restore_probe,
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreRun {
    pub(super) hello: Hello,
    /// In the order in which they ran, controls among them.
    pub(super) restores: Vec<Counted>,
    pub(super) unavailable: Vec<RestoreUnavailable>,
    /// Code that was executed, where it was counted.
    pub(super) profiled: Option<ProbeProfile>,
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

/// Boots once and gives what was reported.
///
/// # Errors
/// Errors of the boot; [`LabError::Malformed`] for a guest that never said hello.
pub(super) fn run(
    steps: &[RestoreStep],
    request: &KernelRequest<'_>,
    materials: &Materials,
    run: u32,
    clock: &Clock,
    surroundings: Surroundings<'_>,
) -> Result<RestoreRun, LabError> {
    let name = kvm_host::name_of(request, materials, run);
    let probe_run = kvm_host::run(request, materials, &name, steps, clock, surroundings)?;
    let profiled = probe_run.profiled;
    let found = understood(probe_run.reports).ok_or_else(|| LabError::Malformed {
        boot: name,
        problem: "it never said hello".to_owned(),
    })?;
    Ok(RestoreRun { profiled, ..found })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understood(reports: Vec<Report>) -> Option<RestoreRun> {
    let mut found = RestoreRun::default();
    let mut hello = None;
    let counted = |purpose, restore| Counted { purpose, restore };
    for report in reports {
        match report {
            Report::Hello(report) => hello = Some(report),
            Report::Restore(one) => found.restores.push(counted(Purpose::Bill, one)),
            Report::RestoreControl(one) => found.restores.push(counted(Purpose::Control, one)),
            Report::RestoreUnavailable(report) => found.unavailable.push(report),
            _ => {}
        }
    }
    Some(RestoreRun {
        hello: hello?,
        ..found
    })
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

    #[test]
    fn a_guest_that_says_no_hello_is_malformed() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_some());
        assert!(understood(vec![Report::Done]).is_none());
    }
}
