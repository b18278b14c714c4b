//! A boot of a guest that has guests: its kernel with KVM, the probe, and their orders.

use std::collections::BTreeSet;

use pagetoll_bill::route::lab::Demand as Mechanism;
use pagetoll_bill::{Order, Row};
use pagetoll_host::Surroundings;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{CheckRun, Demand, DemandParts, DemandUnavailable, Hello, Report};
use pagetoll_protocol::step::DemandStep;

use crate::draft::Clock;
use crate::error::LabError;
use crate::kvm_host::{self, Materials};
use crate::linux::Probe;
use crate::profile::{ProbeProfile, Sample};
use crate::request::KernelRequest;

/// Repetitions of each mechanism after it was warmed up. The median counts: the difference is a timer interrupt.
const REPEATS: usize = 3;
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
    name: "demand-probe",
    order: "demand-order",
    build: build::demand_probe,
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemandRun {
    pub(super) hello: Hello,
    /// For each batch of the order, and for single pages.
    pub(super) parts: Vec<DemandParts>,
    pub(super) demands: Vec<Demand>,
    pub(super) unavailable: Vec<DemandUnavailable>,
    pub(super) checks: Vec<CheckRun>,
    /// Code that was executed, where it was counted.
    pub(super) profiled: Option<ProbeProfile>,
}

impl DemandRun {
    /// Code that was executed for a row, whose cost is that of the demand with this number.
    pub(super) fn sample_of(&self, demand: usize, row: &Row) -> Option<Sample<'_>> {
        // Before the repeats of each, it is done once more to warm up.
        let warm_ups = demand / REPEATS + 1;
        self.profiled.as_ref()?.sample(demand + warm_ups, row)
    }
}

/// The steps of the probe: the parts, then every mechanism, the baseline in any case, then the checks.
fn steps_of_probe(order: &Order) -> Vec<DemandStep> {
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

/// Boots once and gives what was reported.
///
/// # Errors
/// Those of [`NativeBoot::run`]; [`LabError::Malformed`] for a guest that never said hello.
pub(super) fn run(
    request: &KernelRequest<'_>,
    materials: &Materials,
    run: u32,
    clock: &Clock,
    surroundings: Surroundings<'_>,
) -> Result<DemandRun, LabError> {
    let name = kvm_host::name_of(request, materials, run);
    let steps = steps_of_probe(&request.common.order);
    let probe_run = kvm_host::run(request, materials, &name, &steps, clock, surroundings)?;
    let profiled = probe_run.profiled;
    let found = understood(probe_run.reports).ok_or_else(|| LabError::Malformed {
        boot: name,
        problem: "it never said hello, or nothing of the parts".to_owned(),
    })?;
    Ok(DemandRun { profiled, ..found })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understood(reports: Vec<Report>) -> Option<DemandRun> {
    let mut found = DemandRun::default();
    let mut hello = None;
    for report in reports {
        match report {
            Report::Hello(report) => hello = Some(report),
            Report::DemandParts(report) => found.parts.push(report),
            Report::Demand(report) => found.demands.push(report),
            Report::DemandUnavailable(report) => found.unavailable.push(report),
            Report::Check(report) => found.checks.push(report),
            _ => {}
        }
    }
    let hello = hello.filter(|_| !found.parts.is_empty())?;
    Some(DemandRun { hello, ..found })
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

    #[test]
    fn a_guest_that_reports_no_parts_is_malformed() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_none());
        assert!(understood(vec![Report::DemandParts(DemandParts::default())]).is_none());
    }
}
