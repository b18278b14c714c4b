//! A boot of a guest whose guest's memory is discarded: the probe's order, and what it reports.

use pagetoll_bill::Order;
use pagetoll_bill::route::Discard as Call;
use pagetoll_bill::row::Backing;
use pagetoll_host::Surroundings;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{
    Discard, DiscardClearing, DiscardHeld, DiscardMisplaced, DiscardSingle, DiscardUnavailable,
    Hello, Report,
};
use pagetoll_protocol::step::{DiscardStep, Discarded};
use pagetoll_units::Pages;

use crate::draft::Clock;
use crate::error::LabError;
use crate::kvm_host::{self, Materials};
use crate::linux::Probe;
use crate::profile::ProbeProfile;
use crate::request::KernelRequest;

/// Repetitions of each line, each with a machine of its own. The median counts: the difference is a timer interrupt.
const REPEATS: u32 = 3;
/// Pages of the controls.
pub(super) const CONTROL_PAGES: Pages = Pages(1024);
/// Pages that are cleared.
const CLEARED: Pages = Pages(64);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    name: "discard-probe",
    order: "discard-order",
    build: build::discard_probe,
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiscardRun {
    pub(super) hello: Hello,
    /// In the order in which they ran.
    pub(super) discards: Vec<Discard>,
    pub(super) singles: Vec<DiscardSingle>,
    pub(super) misplaced: Vec<DiscardMisplaced>,
    pub(super) held: Vec<DiscardHeld>,
    pub(super) clearing: DiscardClearing,
    pub(super) unavailable: Vec<DiscardUnavailable>,
    /// Code that was executed, where it was counted.
    pub(super) profiled: Option<ProbeProfile>,
}

/// The steps of the probe: every call on memory of each backing, and the controls of the backing.
fn steps_of_probe(order: &Order, backings: &[Backing]) -> Vec<DiscardStep> {
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

/// Boots once and gives what was reported.
///
/// # Errors
/// Errors of the boot; [`LabError::Malformed`] for a guest that never said hello.
pub(super) fn run(
    backings: &[Backing],
    request: &KernelRequest<'_>,
    materials: &Materials,
    run: u32,
    clock: &Clock,
    surroundings: Surroundings<'_>,
) -> Result<DiscardRun, LabError> {
    let name = kvm_host::name_of(request, materials, run);
    let steps = steps_of_probe(&request.common.order, backings);
    let probe_run = kvm_host::run(request, materials, &name, &steps, clock, surroundings)?;
    let profiled = probe_run.profiled;
    let found = understood(probe_run.reports).ok_or_else(|| LabError::Malformed {
        boot: name,
        problem: "it never said hello".to_owned(),
    })?;
    Ok(DiscardRun { profiled, ..found })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understood(reports: Vec<Report>) -> Option<DiscardRun> {
    let mut found = DiscardRun::default();
    let mut hello = None;
    for report in reports {
        match report {
            Report::Hello(report) => hello = Some(report),
            Report::Discard(report) => found.discards.push(report),
            Report::DiscardSingle(report) => found.singles.push(report),
            Report::DiscardMisplaced(report) => found.misplaced.push(report),
            Report::DiscardHeld(report) => found.held.push(report),
            Report::DiscardClearing(report) => found.clearing = report,
            Report::DiscardUnavailable(report) => found.unavailable.push(report),
            _ => {}
        }
    }
    Some(DiscardRun {
        hello: hello?,
        ..found
    })
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

    #[test]
    fn a_guest_that_says_no_hello_is_malformed() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_some());
        assert!(understood(vec![Report::Done]).is_none());
    }
}
