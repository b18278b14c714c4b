//! From what the guests reported to the rows of the bill. Pure: no guest, no file.

use pagetoll_bill::route::RouteMechanism;
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{
    Baselines, Check, Crossings, Figures, Measured, Method, Operation, Order, Row, RowKey, System,
    Unavailable, itemise,
};
use pagetoll_protocol::report::{Clear, Foreign, ForeignUnavailable, Race};
use pagetoll_units::Pages;

use super::{BASELINES, Cell, FOREIGN, OPERATIONS, PV32_BASELINES, cells};
use crate::findings::{Findings, Reports};
use crate::pv32;
use crate::rows::{TracedStep, crossings, per, user_rows};

/// All rows, in the order in which they are read.
pub(super) fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    let mut rows = baseline_rows(System::XenPvDom0, &BASELINES, findings);
    rows.extend(clear_rows(System::XenPvDom0, order, findings));
    if order.needs_pv32() {
        let findings = findings.pv32_alone();
        rows.extend(baseline_rows(
            System::XenPv32Dom0,
            &PV32_BASELINES,
            &findings,
        ));
        rows.extend(clear_rows(System::XenPv32Dom0, order, &findings));
    }
    for operation in OPERATIONS {
        rows.extend(operation_rows(operation, order, findings));
    }
    for operation in FOREIGN {
        let row = |&batch| foreign_row(operation, batch, &findings.foreign);
        rows.extend(order.batches.iter().filter_map(row));
    }
    rows
}

/// Rows of an operation of user space; none of one that the kernel lacks ([`super::BILLING`]'s notes).
fn operation_rows(operation: Operation, order: &Order, findings: &Findings) -> Vec<Row> {
    let is_there = |row: &Row| operation != Operation::UffdMoveWritten || row.figures().is_some();
    let rows = user_rows(operation, order, findings).into_iter();
    rows.filter(is_there).collect()
}

/// The row of a dom0 that maps another domain's pages; none where no hypercalls can be made.
fn foreign_row(operation: Operation, batch: u32, runs: &[Reports]) -> Option<Row> {
    let is_of = |foreign: &&Foreign| foreign.operation == operation && foreign.batch == batch;
    let untraced = |run: &Reports| {
        let mut all = run.foreign.iter().filter(is_of);
        all.find(|foreign| foreign.mark < 0).cloned()
    };
    let counted: Vec<_> = runs.iter().filter_map(untraced).collect();
    let unavailable = runs.iter().find_map(|run| run.no_foreign);
    let figures = match unavailable {
        Some(ForeignUnavailable { errno }) => Err(Unavailable(format!(
            "this Xen makes no other domain: {}",
            std::io::Error::from_raw_os_error(errno)
        ))),
        None if counted.is_empty() => return None,
        None => {
            let cost = |foreign: &Foreign| per(foreign.instructions, foreign.pages);
            Figures::of_runs(counted.iter().map(cost).collect())
        }
    };
    let figures = figures.map(|figures| Figures {
        crossings: crossings(runs, |run| {
            let mut all = run.foreign.iter().filter(is_of);
            let traced = all.find(|foreign| foreign.mark >= 0)?;
            TracedStep::new(traced.mark, traced.pages)
        }),
        ..figures
    });
    let pages = counted.first().map_or(0, |foreign| foreign.pages);
    let key = RowKey::new(operation, Method::Kernel, System::XenPvDom0).at_batch(batch);
    let row = Row::new(key, Pages(pages), figures);
    Some(row.with_checks(foreign_checks(&counted, runs)))
}

/// The other domain's pages hold what they held, mapped and in the end, and then Xen could free them all.
fn foreign_checks(counted: &[Foreign], runs: &[Reports]) -> Vec<Check> {
    let released: Vec<_> = runs.iter().filter_map(|run| run.released).collect();
    let mapped = counted
        .iter()
        .map(|foreign| (foreign.checked, foreign.wrong));
    let in_the_end = released.iter().map(|one| (one.checked, one.wrong));
    let (pages, wrong) = mapped
        .chain(in_the_end)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let contents = (pages > 0).then(|| Check::against_known("foreign-contents", pages, wrong));
    let freed = released.first().map(|first| {
        let pages = released.iter().map(|one| one.checked).sum();
        let left = released.iter().map(|one| one.left).sum();
        Check::against_control("foreign-released", pages, left, first.control_left)
    });
    contents.into_iter().chain(freed).collect()
}

/// The baselines, and parts of mechanisms; none without a probe.
fn baseline_rows(system: System, baselines: &[Baseline], findings: &Findings) -> Vec<Row> {
    if findings.no_probe.is_some() {
        return Vec::new();
    }
    let row = |&baseline| {
        let first = untraced_baseline(baseline, findings).next();
        let pages = first.map_or(0, |clear| clear.pages);
        let batch = first.map_or(1, |clear| clear.batch);
        let key = RowKey::new(Operation::Baseline, Method::Baseline(baseline), system);
        let figures = baseline_figures(baseline, findings);
        Row::new(key.at_batch(batch), Pages(pages), figures)
    };
    baselines.iter().map(row).collect()
}

fn untraced(findings: &Findings) -> impl Iterator<Item = &Clear> {
    let clears = findings.dom0.iter().flat_map(|run| &run.clears);
    clears.filter(|clear| clear.mark < 0)
}

fn untraced_baseline(baseline: Baseline, findings: &Findings) -> impl Iterator<Item = &Clear> {
    untraced(findings).filter(move |clear| clear.method == Method::Baseline(baseline))
}

fn baseline_figures(baseline: Baseline, findings: &Findings) -> Result<Figures, Unavailable> {
    Figures::of_runs(untraced_baseline(baseline, findings).map(cost).collect())
}

fn cost(clear: &Clear) -> f64 {
    per(clear.instructions, clear.pages)
}

fn baseline_cost(baseline: Baseline, findings: &Findings) -> Option<f64> {
    let figures = baseline_figures(baseline, findings).ok()?;
    Some(figures.cost_per_page)
}

fn baselines(findings: &Findings) -> Option<Baselines> {
    let cost = |baseline| baseline_cost(baseline, findings);
    Some(Baselines {
        read: cost(Baseline::Read)?,
        read_and_empty_hypercall: cost(Baseline::EmptyHypercall)?,
    })
}

/// A cell, and what it cost before that is itemised.
struct CellFigures {
    cell: Cell,
    figures: Result<Figures, Unavailable>,
}

fn clear_rows(system: System, order: &Order, findings: &Findings) -> Vec<Row> {
    let cleared = |cell| CellFigures {
        cell,
        figures: figures(cell, findings),
    };
    let cells = cells(order, system).into_iter();
    let mut all: Vec<_> = cells.map(cleared).collect();
    if let Some(baselines) = baselines(findings) {
        itemise_all(&mut all, baselines, findings);
    }
    let row = |CellFigures { cell, figures }| {
        let key = RowKey::new(Operation::Clear, cell.mechanism, system).at_batch(cell.batch);
        Row::new(key, order.pages, figures).with_checks(checks(cell, findings))
    };
    all.into_iter().map(row).collect()
}

fn is_of(clear: &Clear, cell: Cell) -> bool {
    clear.method == cell.mechanism.into() && clear.batch == cell.batch
}

fn figures(cell: Cell, findings: &Findings) -> Result<Figures, Unavailable> {
    if let Some(reason) = &findings.no_probe {
        return Err(reason.clone());
    }
    let clears = untraced(findings).filter(|clear| is_of(clear, cell));
    let figures = Figures::of_runs(clears.map(cost).collect())?;
    Ok(Figures {
        crossings: crossings(&findings.dom0, |run| traced(run, cell)),
        ..figures
    })
}

fn traced(run: &Reports, cell: Cell) -> Option<TracedStep> {
    let mut clears = run.clears.iter();
    let clear = clears.find(|clear| clear.mark >= 0 && is_of(clear, cell))?;
    TracedStep::new(clear.mark, clear.pages)
}

/// Takes the cost of each cell apart. Needs all of them, because a call's cost is a difference between batches.
fn itemise_all(all: &mut [CellFigures], baselines: Baselines, findings: &Findings) {
    let measured = |cleared: &CellFigures| {
        let figures = cleared.figures.as_ref().ok()?;
        let measured = Measured {
            cost_per_page: figures.cost_per_page,
            hypercalls_per_page: figures.crossings.as_ref().map(Crossings::hypercalls),
        };
        Some((cleared.cell.mechanism, measured))
    };
    let costs: Vec<_> = all.iter().filter_map(measured).collect();
    for cleared in all {
        let Some((mechanism, this)) = measured(cleared) else {
            continue;
        };
        let own = costs.iter().filter(|(other, _)| *other == mechanism);
        let others: Vec<_> = own.map(|(_, measured)| *measured).collect();
        if let Ok(figures) = &mut cleared.figures {
            let part = |part| baseline_cost(part, findings);
            figures.tolls = pv32::halves(mechanism.into(), figures, part)
                .unwrap_or_else(|| itemise(this, baselines, &others));
        }
    }
}

/// None without a probe.
fn checks(cell: Cell, findings: &Findings) -> Vec<Check> {
    if findings.no_probe.is_some() {
        return Vec::new();
    }
    let clears: Vec<_> = untraced(findings)
        .filter(|clear| is_of(clear, cell))
        .collect();
    let mut races = findings.races.iter();
    let race = races.find(|race| race.mechanism == cell.mechanism && race.batch == cell.batch);
    let mut checks = single_checks(&clears, race);
    let race_checks = race
        .into_iter()
        .flat_map(|race| race_checks(race, &findings.races));
    checks.extend(race_checks.map(|check| check.kept_from(findings.races_kept.clone())));
    checks
}

/// Checks of every entry: frame, flags, A and D as they were, and nothing left behind.
fn single_checks(clears: &[&Clear], race: Option<&Race>) -> Vec<Check> {
    let pages: u64 = clears.iter().map(|clear| clear.pages).sum();
    let faults = || clears.iter().map(|clear| clear.faults);
    let with_race = pages + race.map_or(0, |race| race.dirtied);
    let raced = race.map(|race| race.faults).unwrap_or_default();
    let misplaced = clears.iter().map(|clear| in_wrong_class(clear)).sum();
    vec![
        Check::against_known("classes-set", pages, misplaced),
        Check::against_known(
            "frame",
            with_race,
            faults().map(|f| f.wrong_frame).sum::<u64>() + raced.wrong_frame,
        ),
        Check::against_known(
            "flags",
            with_race,
            faults().map(|f| f.wrong_flags).sum::<u64>() + raced.wrong_flags,
        ),
        Check::against_known(
            "accessed-dirty",
            pages,
            faults().map(|f| f.lost_accessed + f.lost_dirty).sum(),
        ),
        Check::against_known(
            "pte-none",
            with_race,
            faults().map(|f| f.not_none).sum::<u64>() + raced.not_none,
        ),
        Check::against_known(
            "accepted",
            with_race,
            faults().map(|f| f.refused).sum::<u64>() + raced.refused,
        ),
    ]
}

/// Entries that the guest gives each class: page i gets class i mod 4 (neither, A, A and D, D).
fn classes(pages: u64) -> [u64; 4] {
    let of = |class: u64| (pages + 3 - class) / 4;
    [of(0), of(1), of(3), of(2)]
}

/// Pages that a class lacks, which are as many as others have too many: at least so many are in a wrong class.
fn in_wrong_class(clear: &Clear) -> u64 {
    let classes = classes(clear.pages).into_iter().zip(clear.classes);
    classes
        .map(|(expected, found)| expected.saturating_sub(found))
        .sum()
}

fn race_checks(race: &Race, all: &[Race]) -> [Check; 2] {
    type Count = fn(&Race) -> u64;
    let check = |name, tried, lost: Count| {
        if is_control(race) {
            return Check::of_control(name, tried, lost(race));
        }
        let controls = all.iter().filter(|race| is_control(race)).map(lost).sum();
        Check::against_control(name, tried, lost(race), controls)
    };
    [
        check("smp-lost-dirty", race.dirtied, |race| {
            race.faults.lost_dirty
        }),
        check("smp-lost-accessed", race.accessed, |race| {
            race.faults.lost_accessed
        }),
    ]
}

fn is_control(race: &Race) -> bool {
    !race.mechanism.properties().smp_safe
}

#[cfg(test)]
mod tests;
