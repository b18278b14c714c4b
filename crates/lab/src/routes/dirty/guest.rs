//! A boot of a guest whose guest writes pages: the probe's order, and what it reports.

use pagetoll_bill::Order;
use pagetoll_bill::route::lab::Dirty as Mechanism;
use pagetoll_bill::row::Folio;
use pagetoll_host::Surroundings;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{DirtyLoss, DirtyPhase, DirtyUnavailable, Hello, Report};
use pagetoll_protocol::step::{DirtyStep, Tracked};
use pagetoll_units::Pages;

use crate::draft::Clock;
use crate::error::LabError;
use crate::kvm_host::{self, Materials};
use crate::linux::Probe;
use crate::profile::ProbeProfile;
use crate::request::KernelRequest;

/// Repetitions of each mechanism, each with a machine of its own. The median counts: the difference is a timer interrupt.
pub(super) const REPEATS: usize = 3;
/// Pages and rounds of the search for losses.
const LOSS_PAGES: Pages = Pages(1024);
const LOSS_ROUNDS: u32 = 6;
/// Pages that a call clears where a log begins with every page reported.
const CHUNK: Pages = Pages(512);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    name: "dirty-probe",
    order: "dirty-order",
    build: build::dirty_probe,
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyRun {
    pub(super) hello: Hello,
    /// In the order in which they ran.
    pub(super) phases: Vec<DirtyPhase>,
    pub(super) losses: Vec<DirtyLoss>,
    pub(super) unavailable: Vec<DirtyUnavailable>,
    /// Code that was executed, where it was counted.
    pub(super) profiled: Option<ProbeProfile>,
}

/// All pages by one call, but where clearing by chunks is the point.
const fn chunk(mechanism: Mechanism, pages: Pages) -> Pages {
    match mechanism {
        Mechanism::InitiallySet => CHUNK,
        Mechanism::Bitmap
        | Mechanism::ManualProtect
        | Mechanism::Ring
        | Mechanism::UffdWp
        | Mechanism::WpAsync
        | Mechanism::SoftDirty
        | Mechanism::Rwp => pages,
    }
}

/// The steps of the probe: every mechanism on memory of each shape, and what it loses.
fn steps_of_probe(order: &Order, folios: &[Folio]) -> Vec<DirtyStep> {
    let subject = |mechanism, folio, pages| Tracked {
        mechanism,
        folio,
        chunk: chunk(mechanism, pages),
        pages,
    };
    let mechanisms = order.of::<Mechanism>();
    let cells = folios
        .iter()
        .flat_map(|&folio| mechanisms.iter().map(move |&mechanism| (mechanism, folio)));
    let steps = cells.flat_map(|(mechanism, folio)| {
        [
            DirtyStep::Bill {
                subject: subject(mechanism, folio, order.pages),
                repeats: u32::try_from(REPEATS).unwrap_or(u32::MAX),
            },
            DirtyStep::Loss {
                subject: subject(mechanism, folio, LOSS_PAGES),
                rounds: LOSS_ROUNDS,
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
    folios: &[Folio],
    request: &KernelRequest<'_>,
    materials: &Materials,
    run: u32,
    clock: &Clock,
    surroundings: Surroundings<'_>,
) -> Result<DirtyRun, LabError> {
    let name = kvm_host::name_of(request, materials, run);
    let steps = steps_of_probe(&request.common.order, folios);
    let probe_run = kvm_host::run(request, materials, &name, &steps, clock, surroundings)?;
    let profiled = probe_run.profiled;
    let found = understood(probe_run.reports).ok_or_else(|| LabError::Malformed {
        boot: name,
        problem: "it never said hello".to_owned(),
    })?;
    Ok(DirtyRun { profiled, ..found })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn understood(reports: Vec<Report>) -> Option<DirtyRun> {
    let mut found = DirtyRun::default();
    let mut hello = None;
    for report in reports {
        match report {
            Report::Hello(report) => hello = Some(report),
            Report::DirtyPhase(report) => found.phases.push(report),
            Report::DirtyLoss(report) => found.losses.push(report),
            Report::DirtyUnavailable(report) => found.unavailable.push(report),
            _ => {}
        }
    }
    Some(DirtyRun {
        hello: hello?,
        ..found
    })
}

#[cfg(test)]
mod tests {
    use pagetoll_protocol::step;

    use super::*;

    #[test]
    fn every_mechanism_is_billed_on_every_shape_and_checked_for_losses() {
        let order = Order {
            pages: Pages(2048),
            batches: vec![1],
            mechanisms: vec![Mechanism::Bitmap.into(), Mechanism::InitiallySet.into()],
            runs: 1,
            program: Vec::new(),
        };
        let steps = steps_of_probe(&order, &[Folio::Pages4k, Folio::Thp]);
        let steps = step::order(&steps);
        let lines: Vec<_> = steps.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "bill bitmap 4K 2048 2048 3",
                "loss bitmap 4K 1024 1024 6",
                "bill initially-set 4K 512 2048 3",
                "loss initially-set 4K 512 1024 6",
            ]
        );
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn a_guest_that_says_no_hello_is_malformed() {
        assert!(understood(vec![Report::Hello(Hello::default())]).is_some());
        assert!(understood(vec![Report::Done]).is_none());
    }
}
