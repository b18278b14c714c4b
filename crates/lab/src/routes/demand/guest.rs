//! A boot of a guest that has guests: its kernel with KVM, the probe, and their orders.

use std::collections::BTreeSet;

use pagetoll_bill::Order;
use pagetoll_bill::route::lab::Demand as Mechanism;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{CheckRun, Demand, DemandParts, DemandUnavailable, Report};
use pagetoll_protocol::step::DemandStep;

use crate::linux::Probe;

/// Repetitions of each mechanism after it was warmed up. The median counts: the difference is a timer interrupt.
pub(super) const REPEATS: usize = 3;
/// Repetitions of each part.
const PARTS: u32 = 1000;
/// The mechanism that is checked beyond what it bills, and how: what the vCPU's thread and others do about the same page.
pub(super) const CHECKED: Mechanism = Mechanism::ExitOnMissing;
const CHECKS: [&str; 4] = ["present", "race", "outside", "flag-absent"];
/// Pages of each check.
const CHECK_PAGES: u32 = 512;
/// The mechanism that all others are itemised with.
pub(super) const BASELINE: Mechanism = Mechanism::Populated;

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    program: &build::DEMAND_PROBE,
    order: "demand-order",
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemandRun {
    /// For each batch of the order, and for single pages.
    pub(super) parts: Vec<DemandParts>,
    pub(super) demands: Vec<Demand>,
    pub(super) unavailable: Vec<DemandUnavailable>,
    pub(super) checks: Vec<CheckRun>,
}

/// The steps of the probe: the parts, then every mechanism, the baseline in any case, then the checks.
pub(super) fn steps_of_probe(order: &Order) -> Vec<DemandStep> {
    let ordered = order.of::<Mechanism>();
    let is_checked = ordered.contains(&CHECKED);
    let others = ordered.into_iter().filter(|one| *one != BASELINE);
    let bills = |mechanism| {
        let batches = order.batches_of(mechanism).iter();
        batches.map(move |&batch| DemandStep::Bill {
            mechanism,
            batch,
            pages: order.pages,
            repeats: u32::try_from(REPEATS).unwrap_or(u32::MAX),
        })
    };
    let checks = CHECKS.iter().filter(|_| is_checked);
    let check = |name: &&str| DemandStep::Check {
        name: (*name).to_owned(),
        pages: CHECK_PAGES,
    };
    let batches: BTreeSet<u32> = [1].into_iter().chain(order.batches.clone()).collect();
    let parts = batches.into_iter().map(|batch| DemandStep::Parts {
        batch,
        repeats: PARTS,
    });
    parts
        .chain([BASELINE].into_iter().chain(others).flat_map(bills))
        .chain(checks.map(check))
        .collect()
}

/// Takes a report of the probe among the findings.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
pub(super) fn take(run: &mut DemandRun, report: Report) {
    match report {
        Report::DemandParts(report) => run.parts.push(report),
        Report::Demand(report) => run.demands.push(report),
        Report::DemandUnavailable(report) => run.unavailable.push(report),
        Report::Check(report) => run.checks.push(report),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_protocol::step;
    use pagetoll_units::Pages;

    use super::*;

    #[test]
    fn the_baseline_is_billed_whatever_was_ordered() {
        let order = Order {
            pages: Pages(8),
            batches: vec![1, 16],
            mechanisms: vec![Mechanism::Uffd.into()],
            runs: 1,
            program: Vec::new(),
        };
        assert_eq!(
            step::order(&steps_of_probe(&order)),
            "parts 1 1000\nparts 16 1000\nbill populated 1 8 3\nbill uffd 1 8 3\nbill uffd 16 8 3\n"
        );
    }

    #[test]
    fn exits_are_checked_beyond_what_is_billed() {
        let order = Order {
            pages: Pages(8),
            batches: vec![1],
            mechanisms: vec![CHECKED.into()],
            runs: 1,
            program: Vec::new(),
        };
        let order = step::order(&steps_of_probe(&order));
        let checks: Vec<_> = order.lines().skip(3).collect();
        assert_eq!(checks[0], "check present 512");
        assert_eq!(checks.len(), CHECKS.len());
    }
}
