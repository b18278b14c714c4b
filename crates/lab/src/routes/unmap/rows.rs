//! From what the guests reported to the rows of the bill. Pure: no guest, no file.

use pagetoll_bill::{
    Baselines, Check, Measured, Mechanism, Order, Role, Route, Row, System, itemise,
};
use pagetoll_traces::xentrace::Crossings;
use pagetoll_units::Pages;

use super::plan::{EMPTY_HYPERCALL, OPERATIONS, PV32_PARTS, READ, cells};
use crate::dom0::findings::{Counted, Findings};
use crate::dom0::pv32;
use crate::dom0::rows::{hypercalls_per_page, per, set_crossings, user_rows};
use crate::guest::report::{Clear, Race};

/// All rows, in the order in which they are read.
pub(super) fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    let mut rows = baseline_rows(&[], findings);
    rows.extend(clear_rows(order, System::XenPvDom0, findings));
    if pv32::is_ordered(Route::Unmap, order) {
        let findings = findings.of_pv32();
        let mut of_pv32 = baseline_rows(&PV32_PARTS, &findings);
        of_pv32.extend(clear_rows(order, System::XenPv32Dom0, &findings));
        rows.extend(pv32::attributed(of_pv32));
    }
    for operation in OPERATIONS {
        rows.extend(user_rows(operation, order, findings));
    }
    rows
}

/// The baselines, and parts of mechanisms; none without a probe.
fn baseline_rows(parts: &[&str], findings: &Findings) -> Vec<Row> {
    if findings.no_probe.is_some() {
        return Vec::new();
    }
    let names = [READ, EMPTY_HYPERCALL]
        .into_iter()
        .chain(parts.iter().copied());
    names.map(|name| baseline_row(name, findings)).collect()
}

fn clear_rows(order: &Order, system: System, findings: &Findings) -> Vec<Row> {
    let clear = |(mechanism, batch)| clear_row(mechanism, batch, order, findings);
    let mut cleared: Vec<_> = cells(order, system).into_iter().map(clear).collect();
    if let Some(baselines) = baselines(findings) {
        itemise_all(&mut cleared, baselines);
    }
    cleared
}

fn untraced<'a>(
    dom0: &'a [Counted],
    mechanism: &'a str,
    batch: Option<u32>,
) -> impl Iterator<Item = &'a Clear> {
    let wanted = move |clear: &&Clear| {
        clear.mark < 0
            && clear.mechanism == mechanism
            && batch.is_none_or(|batch| clear.batch == batch)
    };
    dom0.iter()
        .flat_map(move |run| run.clears.iter().filter(wanted))
}

fn baseline_row(name: &str, findings: &Findings) -> Row {
    let clears: Vec<_> = untraced(&findings.dom0, name, None).collect();
    let pages = clears.first().map_or(0, |clear| clear.pages);
    let batch = clears.first().map_or(1, |clear| clear.batch);
    let mut row = Row::new("baseline", name, Role::Baseline, Pages(pages));
    row.batch = batch;
    row.set_runs(
        clears
            .iter()
            .map(|clear| per(clear.instructions, clear.pages))
            .collect(),
    );
    row
}

fn baselines(findings: &Findings) -> Option<Baselines> {
    let mean = |name| baseline_row(name, findings).cost_per_page;
    Some(Baselines {
        read: mean(READ)?,
        read_and_empty_hypercall: mean(EMPTY_HYPERCALL)?,
    })
}

fn clear_row(mechanism: &Mechanism, batch: u32, order: &Order, findings: &Findings) -> Row {
    let mut row = Row::new("clear", mechanism.name, mechanism.role, order.pages);
    row.batch = batch;
    if let Some(reason) = &findings.no_probe {
        row.unavailable = Some(reason.clone());
        return row;
    }
    let clears: Vec<_> = untraced(&findings.dom0, mechanism.name, Some(batch)).collect();
    row.set_runs(
        clears
            .iter()
            .map(|clear| per(clear.instructions, clear.pages))
            .collect(),
    );
    let traced = findings
        .dom0
        .iter()
        .find_map(|run| traced_clear(run, mechanism, batch));
    set_crossings(&mut row, traced);
    row.checks = single_checks(&clears, race_of(findings, mechanism, batch));
    if let Some(race) = race_of(findings, mechanism, batch) {
        row.checks
            .extend(race_checks(race, mechanism, &findings.races));
        row.smp_safe = smp_verdict(&row.checks);
    }
    row
}

fn traced_clear<'a>(
    run: &'a Counted,
    mechanism: &Mechanism,
    batch: u32,
) -> Option<(&'a Crossings, u64)> {
    let mut traced = run.clears.iter().filter(|clear| clear.mark >= 0);
    let clear = traced.find(|clear| clear.mechanism == mechanism.name && clear.batch == batch)?;
    let id = u16::try_from(clear.mark).ok()?;
    Some((run.crossings.get(&id)?, clear.pages))
}

/// Takes the cost of each row apart. Needs all rows, because a call's cost is a difference between batches.
fn itemise_all(rows: &mut [Row], baselines: Baselines) {
    let measured = |row: &Row| {
        let measured = Measured {
            cost_per_page: row.cost_per_page?,
            hypercalls_per_page: hypercalls_per_page(row),
        };
        Some((row.mechanism.clone(), measured))
    };
    let all: Vec<_> = rows.iter().filter_map(measured).collect();
    for row in rows {
        let own = all.iter().filter(|(name, _)| *name == row.mechanism);
        let others: Vec<_> = own.map(|(_, measured)| *measured).collect();
        if let Some((_, this)) = measured(row) {
            row.tolls = itemise(this, baselines, &others);
        }
    }
}

fn race_of<'a>(findings: &'a Findings, mechanism: &Mechanism, batch: u32) -> Option<&'a Race> {
    let mut races = findings.races.iter();
    races.find(|race| race.mechanism == mechanism.name && race.batch == batch)
}

/// What every entry is compared with: frame, flags, A and D as they were, and nothing left behind.
fn single_checks(clears: &[&Clear], race: Option<&Race>) -> Vec<Check> {
    let pages: u64 = clears.iter().map(|clear| clear.pages).sum();
    let faults = || clears.iter().map(|clear| clear.faults);
    let with_race = pages + race.map_or(0, |race| race.dirtied);
    let raced = race.map(|race| race.faults).unwrap_or_default();
    let misclassed = clears.iter().copied().map(misclassed).sum();
    vec![
        Check::against_known("classes-set", pages, misclassed),
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

/// How many entries the guest gives each class: page i gets class i mod 4 (neither, A, A and D, D).
fn classes(pages: u64) -> [u64; 4] {
    let of = |class: u64| (pages + 3 - class) / 4;
    [of(0), of(1), of(3), of(2)]
}

/// Entries that their class lacks.
fn misclassed(clear: &Clear) -> u64 {
    let wanted = classes(clear.pages).into_iter();
    let lacking = |(wanted, found): (u64, u64)| wanted.saturating_sub(found);
    wanted.zip(clear.classes).map(lacking).sum()
}

fn race_checks(race: &Race, mechanism: &Mechanism, all: &[Race]) -> [Check; 2] {
    type Count = fn(&Race) -> u64;
    let check = |name, tried, lost: Count| {
        if mechanism.smp_safe {
            let controls = all.iter().filter(|race| is_control(race)).map(lost).sum();
            Check::against_control(name, tried, lost(race), controls)
        } else {
            Check::of_control(name, tried, lost(race))
        }
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
    pagetoll_bill::Route::Unmap
        .mechanism(&race.mechanism)
        .is_ok_and(|mechanism| !mechanism.smp_safe)
}

fn smp_verdict(checks: &[Check]) -> Option<bool> {
    use pagetoll_bill::Verdict;
    let races = || checks.iter().filter(|check| check.is_race());
    if races().any(|check| check.verdict == Verdict::Fail) {
        return Some(false);
    }
    races()
        .all(|check| check.verdict == Verdict::Pass)
        .then_some(true)
}

#[cfg(test)]
mod tests;
