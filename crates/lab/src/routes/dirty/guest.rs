//! A boot of a guest whose guest writes pages: the probe's order, and what it reports.

use pagetoll_bill::Order;
use pagetoll_bill::route::lab::Dirty as Mechanism;
use pagetoll_bill::row::Folio;
use pagetoll_protocol::build;
use pagetoll_protocol::report::{DirtyLoss, DirtyPhase, DirtyUnavailable, Report};
use pagetoll_protocol::step::{DirtyStep, Tracked};
use pagetoll_units::Pages;

use crate::linux::Probe;

/// Repetitions of each mechanism, each with a machine of its own. The median counts: the difference is a timer interrupt.
pub(super) const REPEATS: usize = 3;
/// Pages and rounds of the search for losses.
const LOSS_PAGES: Pages = Pages(1024);
const LOSS_ROUNDS: u32 = 6;
/// Pages that a call clears where a log begins with every page reported.
const CHUNK: Pages = Pages(512);

/// The probe that bills and checks.
pub(super) const PROBE: Probe = Probe {
    program: &build::DIRTY_PROBE,
    order: "dirty-order",
};

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyRun {
    /// In the order in which they ran.
    pub(super) phases: Vec<DirtyPhase>,
    pub(super) losses: Vec<DirtyLoss>,
    pub(super) unavailable: Vec<DirtyUnavailable>,
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
pub(super) fn steps_of_probe(order: &Order, folios: &[Folio]) -> Vec<DirtyStep> {
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

/// Takes a report of the probe among the findings.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
pub(super) fn take(run: &mut DirtyRun, report: Report) {
    match report {
        Report::DirtyPhase(report) => run.phases.push(report),
        Report::DirtyLoss(report) => run.losses.push(report),
        Report::DirtyUnavailable(report) => run.unavailable.push(report),
        _ => {}
    }
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
}
