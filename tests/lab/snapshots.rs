//! Guests that are restored, and counts that are kept, beside guests that are booted.

use libtest_mimic::Failed;
use pagetoll_bill::{Bill, Check, Row, Verdict};

use crate::bench::{Bench, ensure, must_succeed};

/// A small order of the route whose guests race.
const RACE: &str = "unmap --pages 512 --batch 1,32 --mechanism emulate,preserve-ad";
/// A small order of each other machine whose guests stop: those of `switch` and `irq` are as those of `fault`.
const ORDERS: [&str; 4] = [
    "fault --pages 512 --mechanism emulate,hypercall",
    "flush --pages 512",
    "demand --on lab --pages 512 --batch 1",
    "pin --pages 512 --folio 4K,2M",
];
/// Message of -vv for a guest that was not booted.
const RESTORED: &str = "restored from a snapshot";

/// A bill, and how many guests were restored for it.
struct RestoredBill {
    bill: Bill,
    restored: usize,
}

fn billed(bench: &Bench, order: &str, start: Option<&str>) -> Result<RestoredBill, Failed> {
    let words = ["-vv", "bill"].into_iter().chain(order.split(' '));
    let words = words.chain(start).chain(["--format", "json"]);
    let output = must_succeed(bench.pagetoll(&words.collect::<Vec<_>>()))?;
    Ok(RestoredBill {
        bill: serde_json::from_slice(&output.stdout)?,
        restored: String::from_utf8_lossy(&output.stderr)
            .matches(RESTORED)
            .count(),
    })
}

/// Compares to the last digit. Verdicts of races are not counts.
fn count_alike(one: &Bill, other: &Bill) -> Result<(), Failed> {
    let counted = |row: &Row| {
        let (cost, crossings, tolls) = (row.cost(), row.crossings(), row.tolls());
        format!("{}: {cost:?} {crossings:?} {tolls:?}", row.key)
    };
    let of = |bill: &Bill| -> Vec<_> { bill.rows.iter().map(counted).collect() };
    for (one, other) in of(one).iter().zip(&of(other)) {
        ensure(one == other, format!("{one}, then {other}"))?;
    }
    ensure(
        !one.rows.is_empty() && one.rows.len() == other.rows.len(),
        "other rows",
    )
}

fn races(bill: &Bill) -> impl Iterator<Item = &Check> {
    let checks = bill.rows.iter().flat_map(|row| &row.checks);
    checks.filter(|check| check.is_race())
}

pub(crate) fn count_as_booted(bench: &Bench) -> Result<(), Failed> {
    ORDERS
        .iter()
        .try_for_each(|order| counts_as_booted(bench, order))
}

pub(crate) fn race_as_booted(bench: &Bench) -> Result<(), Failed> {
    counts_as_booted(bench, RACE)
}

fn counts_as_booted(bench: &Bench, order: &str) -> Result<(), Failed> {
    let booted = billed(bench, order, Some("--cold"))?;
    ensure(booted.restored == 0, format!("{order}: --cold restored"))?;
    let fresh = billed(bench, order, Some("--fresh"))?;
    // Also where there was no snapshot yet.
    ensure(fresh.restored > 0, format!("{order}: booted"))?;
    count_alike(&booted.bill, &fresh.bill)?;
    let counted = &fresh.bill.provenance.inputs.counted;
    ensure(counted.is_none(), format!("{order}: --fresh did not count"))?;
    let kept = billed(bench, order, None)?.bill;
    count_alike(&booted.bill, &kept)?;
    let counted = &kept.provenance.inputs.counted;
    ensure(counted.is_some(), format!("{order}: counted again"))?;
    let is_conclusive = |check: &&Check| check.verdict != Verdict::Inconclusive;
    let raced_again = races(&kept).filter(|check| check.kept.is_none()).count();
    let kept_before = races(&fresh.bill).all(|check| is_conclusive(&check));
    ensure(
        !kept_before || raced_again == 0,
        format!("{order}: raced again"),
    )
}
