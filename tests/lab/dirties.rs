//! Pages that a guest of the lab's guest writes: a small bill of dirty tracking on Debian's kernel.

use std::fs;

use libtest_mimic::Failed;
use pagetoll_bill::{Arch, Bill, Operation, Row, Toll, Verdict};

use crate::bench::{Bench, counts_again, ensure, lacks, must_fail, must_succeed};

/// Mechanisms whose phases count the same under the plugin as by the clock.
const MECHANISMS: &str = "bitmap,manual-protect,initially-set,ring,uffd-wp,wp-async";

/// Debian's kernel for a processor: what it has is billed, loses nothing where its control does, and counts the same again.
pub(crate) fn bill(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("written_pages_are_found", arch) {
        return Ok(());
    }
    let file = bench.folder.path().join(format!("dirty-{arch}.json"));
    let path = file.to_string_lossy().into_owned();
    let order = format!(
        "bill dirty --on lab --arch {arch} --pages 512 --folio 4K --mechanism {MECHANISMS}"
    );
    let order: Vec<_> = order.split(' ').collect();
    must_succeed(bench.pagetoll(&[&order[..], &["--output", &path]].concat()))?;
    let bill: Bill = serde_json::from_slice(&fs::read(&file)?)?;
    ensure(
        bill.rows.len() == 6 * 8,
        format!("{} rows", bill.rows.len()),
    )?;
    let passed = bill.checks_with(Verdict::Pass).count();
    let harvests = bill
        .rows
        .iter()
        .filter(|row| is_billed(row, Operation::Harvest));
    let harvests = harvests.count();
    ensure(harvests >= 3, format!("{harvests} mechanisms are billed"))?;
    ensure(passed == 2 * harvests, format!("{passed} checks passed"))?;
    for row in &bill.rows {
        sums_up(row)?;
    }
    let cost = |mechanism: &str, phase| cost(&bill, mechanism, phase);
    ensure(
        cost("bitmap", Operation::FirstWrite) > 10.0 * cost("bitmap", Operation::RewriteUntracked),
        "a write that is tracked costs no exit",
    )?;
    ensure(
        cost("initially-set", Operation::Arm) < cost("bitmap", Operation::Arm),
        "protecting nothing costs more than protecting every page",
    )?;
    counts_again(bench, &order, &bill)?;
    refusals(bench)
}

fn is_billed(row: &Row, phase: Operation) -> bool {
    row.key.operation == phase && row.cost().is_some()
}

fn cost(bill: &Bill, mechanism: &str, phase: Operation) -> f64 {
    let mut rows = bill.rows.iter();
    let found = rows.find(|row| row.key.method.name() == mechanism && is_billed(row, phase));
    found.and_then(Row::cost).unwrap_or(f64::NAN)
}

fn sums_up(row: &Row) -> Result<(), Failed> {
    let sum = Toll::sum(row.tolls());
    match row.cost() {
        Some(cost) => ensure(
            (sum - cost).abs() < 1e-6,
            format!("{}: {sum} of {cost}", row.key),
        ),
        None => ensure(
            row.why_unavailable().is_some(),
            format!("{}: no reason", row.key),
        ),
    }
}

fn refusals(bench: &Bench) -> Result<(), Failed> {
    let order = "bill dirty --on lab --pages 100"
        .split(' ')
        .collect::<Vec<_>>();
    must_fail(
        bench.pagetoll(&order),
        2,
        &["--pages 100: expected a multiple of 512"],
    )?;
    let order = "bill dirty --on lab --folio 1G"
        .split(' ')
        .collect::<Vec<_>>();
    must_fail(
        bench.pagetoll(&order),
        2,
        &["--folio 1G: expected 4K, THP or 2M"],
    )
}
