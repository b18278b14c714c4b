//! A boot of a guest whose guest's memory is discarded: the probe's order, and what it reports.

use pagetoll_bill::Order;
use pagetoll_bill::route::Discard as Call;
use pagetoll_bill::row::Backing;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{
    Discard, DiscardClearing, DiscardHeld, DiscardMisplaced, DiscardSingle, DiscardUnavailable,
    Report,
};
use pagetoll_protocol::step::{DiscardStep, Discarded};
use pagetoll_units::Pages;

use crate::linux::Probe;

/// Repetitions of each line, each with a machine of its own. The median counts: the difference is a timer interrupt.
const REPEATS: u32 = 3;
/// Pages of the controls.
pub(super) const CONTROL_PAGES: Pages = Pages(1024);
/// Pages that are cleared.
const CLEARED: Pages = Pages(64);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    program: &build::DISCARD_PROBE,
    order: "discard-order",
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiscardRun {
    /// In the order in which they ran.
    pub(super) discards: Vec<Discard>,
    pub(super) singles: Vec<DiscardSingle>,
    pub(super) misplaced: Vec<DiscardMisplaced>,
    pub(super) held: Vec<DiscardHeld>,
    pub(super) clearing: DiscardClearing,
    pub(super) unavailable: Vec<DiscardUnavailable>,
}

/// The steps of the probe: every call on memory of each backing, and the controls of the backing.
pub(super) fn steps_of_probe(order: &Order, backings: &[Backing]) -> Vec<DiscardStep> {
    let of_backing = |&backing| {
        let calls = order.of::<Call>();
        let lines = calls
            .into_iter()
            .flat_map(move |call| steps_of_call(order, backing, call));
        controls(order, backing).into_iter().chain(lines)
    };
    let lines = backings.iter().flat_map(of_backing);
    [DiscardStep::Clear(CLEARED)]
        .into_iter()
        .chain(lines)
        .collect()
}

fn controls(order: &Order, backing: Backing) -> Vec<DiscardStep> {
    let subject = |chunk| Discarded {
        call: Call::known_to_free(backing),
        backing,
        chunk,
        pages: CONTROL_PAGES,
    };
    let misplaced = order.batches.iter().flat_map(|&chunk| {
        let subject = subject(chunk);
        [
            DiscardStep::Misplace(subject),
            DiscardStep::MisplaceAndSpoil(subject),
        ]
    });
    [DiscardStep::Hold(subject(1))]
        .into_iter()
        .chain(misplaced)
        .collect()
}

fn steps_of_call(order: &Order, backing: Backing, call: Call) -> Vec<DiscardStep> {
    let steps = order.batches.iter().flat_map(|&chunk| {
        let subject = Discarded {
            call,
            backing,
            chunk,
            pages: order.pages,
        };
        [
            DiscardStep::Bill {
                subject,
                repeats: REPEATS,
            },
            DiscardStep::Single(subject),
        ]
    });
    steps.collect()
}

/// Takes a report of the probe among the findings.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
pub(super) fn take(run: &mut DiscardRun, report: Report) {
    match report {
        Report::Discard(report) => run.discards.push(report),
        Report::DiscardSingle(report) => run.singles.push(report),
        Report::DiscardMisplaced(report) => run.misplaced.push(report),
        Report::DiscardHeld(report) => run.held.push(report),
        Report::DiscardClearing(report) => run.clearing = report,
        Report::DiscardUnavailable(report) => run.unavailable.push(report),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_protocol::step;

    use super::*;

    #[test]
    fn every_call_is_billed_on_every_backing_after_the_controls_of_the_backing() {
        let order = Order {
            pages: Pages(2048),
            batches: vec![1, 512],
            mechanisms: vec![Call::MadvDontneed.into(), Call::MapFixed.into()],
            runs: 1,
            program: Vec::new(),
        };
        let steps = steps_of_probe(&order, &[Backing::Memfd, Backing::Thp]);
        let steps = step::order(&steps);
        let lines: Vec<_> = steps.lines().collect();
        assert_eq!(
            lines[..9],
            [
                "clear 64",
                "hold punch-hole memfd 1 1024",
                "misplace punch-hole memfd 1 1024",
                "misplace-and-spoil punch-hole memfd 1 1024",
                "misplace punch-hole memfd 512 1024",
                "misplace-and-spoil punch-hole memfd 512 1024",
                "bill madv-dontneed memfd 1 2048 3",
                "single madv-dontneed memfd 1 2048",
                "bill madv-dontneed memfd 512 2048 3",
            ]
        );
        assert_eq!(lines.len(), 1 + 2 * (5 + 2 * 2 * 2));
    }
}
