//! From what guests report to rows. Pure.
//!
//! A row is a phase of a mechanism on memory of a shape. What a write costs more than that of a page which is not tracked is
//! an item of its own.

use pagetoll_bill::route::lab::Dirty as Mechanism;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{
    Check, Crossings, Figures, Operation, Order, Row, RowKey, System, Toll, Unavailable,
};
use pagetoll_protocol::report::{DirtyLoss, DirtyPhase};
use pagetoll_pv::rows::per;

use super::guest::DirtyRun;

/// The phases, in the order in which they run.
const PHASES: [Operation; 8] = [
    UNTRACKED,
    Operation::Arm,
    Operation::FirstWrite,
    Operation::Harvest,
    Operation::ReArm,
    Operation::WriteAgain,
    Operation::Disarm,
    Operation::AfterDisarm,
];
const UNTRACKED: Operation = Operation::RewriteUntracked;

/// The subject of a row.
#[derive(Clone, Copy)]
struct Line {
    mechanism: Mechanism,
    folio: Folio,
    phase: Operation,
}

/// A row for each phase of each mechanism on memory of each shape.
pub(super) fn rows(order: &Order, folios: &[Folio], found: &[DirtyRun]) -> Vec<Row> {
    let mechanisms = order.of::<Mechanism>();
    let lines = |folio| {
        let lines = move |mechanism| {
            PHASES.map(|phase| Line {
                mechanism,
                folio,
                phase,
            })
        };
        mechanisms.iter().copied().flat_map(lines)
    };
    let row = |line: Line| {
        let figures = figures(line, found);
        let checks = match (&figures, line.phase) {
            (Ok(_), Operation::Harvest) => checks(line, found),
            _ => Vec::new(),
        };
        Row::new(key(line), order.pages, figures).with_checks(checks)
    };
    folios
        .iter()
        .flat_map(|&folio| lines(folio).map(row).collect::<Vec<_>>())
        .collect()
}

fn key(line: Line) -> RowKey {
    RowKey {
        folio: Some(line.folio),
        ..RowKey::new(line.phase, line.mechanism, System::KvmGuest)
    }
}

fn figures(line: Line, found: &[DirtyRun]) -> Result<Figures, Unavailable> {
    let losses = Losses::new(line, found);
    if losses.tried > 0 && losses.lost == losses.tried {
        let tried = losses.tried;
        return Err(Unavailable(format!(
            "it does not cover this memory: none of {tried} pages that were written was reported"
        )));
    }
    let medians = found.iter().filter_map(|run| median(run, line));
    let medians: Vec<_> = medians.collect();
    let (Some(run), Some(first)) = (found.first(), medians.first()) else {
        return Err(Unavailable(why_not(line, found)));
    };
    let figures = Figures::of_runs(medians.iter().map(|phase| cost(phase)).collect())?;
    Ok(Figures {
        crossings: Some(crossings(first)),
        tolls: tolls(line, figures.cost_per_page, run),
        ..figures
    })
}

fn why_not(line: Line, found: &[DirtyRun]) -> String {
    let is_of_line = |of: (Mechanism, Folio)| of == (line.mechanism, line.folio);
    let mut lacking = found.iter().flat_map(|found| &found.unavailable);
    if let Some(report) = lacking.find(|one| is_of_line((one.mechanism, one.folio))) {
        return format!("the guest lacks {}", report.lacks);
    }
    let reason = match (line.mechanism, line.phase) {
        (Mechanism::WpAsync, Operation::ReArm) => {
            "a part of harvest: PM_SCAN_WP_MATCHING protects what PAGEMAP_SCAN reports"
        }
        (Mechanism::Bitmap, Operation::ReArm) => {
            "a part of harvest: KVM_GET_DIRTY_LOG protects what it reports"
        }
        (Mechanism::SoftDirty, Operation::Disarm | Operation::AfterDisarm) => {
            "nothing is disarmed: the bits stay"
        }
        _ => "the guest did not bill it",
    };
    reason.to_owned()
}

fn phases(found: &DirtyRun, line: Line) -> impl Iterator<Item = &DirtyPhase> {
    let of = move |phase: &&DirtyPhase| {
        phase.mechanism == line.mechanism && phase.folio == line.folio && phase.phase == line.phase
    };
    found.phases.iter().filter(of)
}

fn median(found: &DirtyRun, line: Line) -> Option<&DirtyPhase> {
    let mut repeats: Vec<_> = phases(found, line).collect();
    repeats.sort_by_key(|phase| phase.instructions);
    repeats.get(repeats.len() / 2).copied()
}

fn cost(phase: &DirtyPhase) -> f64 {
    per(phase.instructions, phase.pages)
}

fn crossings(phase: &DirtyPhase) -> Crossings {
    let kinds = [
        ("vm-exit", phase.exits),
        ("uffd-message", phase.faults),
        ("thread-switch", phase.switches),
    ];
    let occurred = kinds.into_iter().filter(|(_, count)| *count > 0);
    Crossings {
        per_page: per(phase.exits, phase.pages),
        by_kind: occurred
            .map(|(kind, count)| (kind.to_owned(), per(count, phase.pages)))
            .collect(),
    }
}

/// Items of a cost: a write is split into that of an untracked page and the rest; calls are one item.
fn tolls(line: Line, cost_per_page: f64, found: &DirtyRun) -> Vec<Toll> {
    let untracked = Line {
        phase: UNTRACKED,
        ..line
    };
    let written = |untracked: f64| {
        vec![
            Toll::once("rewrite-untracked", untracked),
            Toll::once("tracking", cost_per_page - untracked),
        ]
    };
    let is_write = matches!(
        line.phase,
        Operation::FirstWrite | Operation::WriteAgain | Operation::AfterDisarm
    );
    if is_write {
        return median(found, untracked).map_or_else(Vec::new, |phase| written(cost(phase)));
    }
    vec![Toll::once(line.phase.name(), cost_per_page)]
}

/// Pages that differed from their copies at a harvest, in all runs.
struct Losses {
    tried: u64,
    lost: u64,
    lost_by_control: u64,
}

impl Losses {
    fn new(line: Line, found: &[DirtyRun]) -> Self {
        let losses = found.iter().flat_map(|found| &found.losses);
        let of_line =
            losses.filter(|loss| loss.mechanism == line.mechanism && loss.folio == line.folio);
        let sum = |of: fn(&DirtyLoss) -> u64| of_line.clone().map(of).sum();
        Self {
            tried: sum(|loss| loss.tried),
            lost: sum(|loss| loss.lost),
            lost_by_control: sum(|loss| loss.control_lost),
        }
    }
}

/// Checks of every repeat: each page is reported that was written, in the bill and between the calls that clear and copy.
fn checks(line: Line, found: &[DirtyRun]) -> Vec<Check> {
    let phases = || found.iter().flat_map(|found| phases(found, line));
    let pages: u64 = phases().map(|phase| phase.pages).sum();
    let reported: u64 = phases().map(|phase| phase.reported).sum();
    let losses = Losses::new(line, found);
    vec![
        Check::against_control("lost", losses.tried, losses.lost, losses.lost_by_control),
        Check::against_known("reported", pages, pages.saturating_sub(reported)),
    ]
}

/// The step whose code a row executed.
pub(super) fn step_of(run: &DirtyRun, row: &Row) -> Option<usize> {
    let line = Line {
        mechanism: Mechanism::try_from(row.key.method.mechanism()?).ok()?,
        folio: row.key.folio?,
        phase: row.key.operation,
    };
    let median = median(run, line)?;
    run.phases.iter().position(|phase| phase == median)
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Verdict;
    use pagetoll_protocol::report::DirtyUnavailable;
    use pagetoll_units::Pages;

    use super::*;

    fn phase(mechanism: Mechanism, phase: Operation, instructions: u64) -> DirtyPhase {
        DirtyPhase {
            mechanism,
            folio: Folio::Pages4k,
            pages: 10,
            phase,
            instructions,
            exits: 10,
            faults: 0,
            switches: 0,
            reported: 10,
        }
    }

    fn loss(mechanism: Mechanism, lost: u64) -> DirtyLoss {
        DirtyLoss {
            mechanism,
            folio: Folio::Pages4k,
            tried: 100,
            lost,
            control_tried: 100,
            control_lost: 7,
        }
    }

    fn found(mechanism: Mechanism) -> DirtyRun {
        DirtyRun {
            phases: vec![
                phase(mechanism, UNTRACKED, 70),
                phase(mechanism, Operation::FirstWrite, 16_900),
                phase(mechanism, Operation::FirstWrite, 17_000),
                phase(mechanism, Operation::FirstWrite, 99_000),
                phase(mechanism, Operation::Harvest, 3100),
            ],
            losses: vec![loss(mechanism, 0)],
            ..DirtyRun::default()
        }
    }

    fn rows_of(mechanism: Mechanism, found: DirtyRun) -> Vec<Row> {
        let order = Order {
            pages: Pages(10),
            batches: vec![1],
            mechanisms: vec![mechanism.into()],
            runs: 1,
            program: Vec::new(),
        };
        rows(&order, &[Folio::Pages4k], &[found])
    }

    fn of(rows: &[Row], phase: Operation) -> &Row {
        rows.iter().find(|row| row.key.operation == phase).unwrap()
    }

    #[test]
    fn a_write_is_itemised_by_what_it_costs_untracked_and_the_median_counts() {
        let rows = rows_of(Mechanism::Bitmap, found(Mechanism::Bitmap));
        assert_eq!(rows.len(), PHASES.len());
        let first = of(&rows, Operation::FirstWrite);
        assert_eq!(first.cost(), Some(1700.0));
        let tolls: Vec<_> = first
            .tolls()
            .iter()
            .map(|toll| (toll.name.as_str(), toll.cost_each))
            .collect();
        assert_eq!(tolls, [("rewrite-untracked", 7.0), ("tracking", 1693.0)]);
        let harvest = of(&rows, Operation::Harvest);
        assert_eq!(Toll::sum(harvest.tolls()), 310.0);
        let passed = |check: &Check| check.verdict == Verdict::Pass;
        assert!(harvest.checks.len() == 2 && harvest.checks.iter().all(passed));
        let reason = of(&rows, Operation::ReArm).why_unavailable().unwrap();
        assert!(reason.contains("KVM_GET_DIRTY_LOG"), "{reason}");
    }

    #[test]
    fn a_page_that_is_not_reported_fails_and_a_control_that_loses_none_proves_nothing() {
        let verdicts = |losses: DirtyLoss| {
            let found = DirtyRun {
                losses: vec![losses],
                ..found(Mechanism::Ring)
            };
            let rows = rows_of(Mechanism::Ring, found);
            of(&rows, Operation::Harvest).checks[0].verdict
        };
        assert_eq!(verdicts(loss(Mechanism::Ring, 1)), Verdict::Fail);
        let idle = DirtyLoss {
            control_lost: 0,
            ..loss(Mechanism::Ring, 0)
        };
        assert_eq!(verdicts(idle), Verdict::Inconclusive);
    }

    #[test]
    fn memory_that_is_not_covered_has_no_figures() {
        let found = DirtyRun {
            losses: vec![loss(Mechanism::SoftDirty, 100)],
            ..found(Mechanism::SoftDirty)
        };
        let rows = rows_of(Mechanism::SoftDirty, found);
        for row in &rows {
            let reason = row.why_unavailable().unwrap();
            assert!(reason.contains("none of 100 pages"), "{reason}");
            assert!(row.checks.is_empty());
        }
    }

    #[test]
    fn a_kernel_without_a_mechanism_says_so() {
        let found = DirtyRun {
            unavailable: vec![DirtyUnavailable {
                mechanism: Mechanism::WpAsync,
                folio: Folio::Pages4k,
                lacks: "UFFD_FEATURE_WP_ASYNC".into(),
            }],
            ..DirtyRun::default()
        };
        let rows = rows_of(Mechanism::WpAsync, found);
        let reasons: Vec<_> = rows.iter().filter_map(Row::why_unavailable).collect();
        assert_eq!(reasons.len(), PHASES.len());
        assert_eq!(reasons[0], "the guest lacks UFFD_FEATURE_WP_ASYNC");
    }
}
