//! Memory of a guest of the lab's guest that is brought back from an image: a small bill of restores on Debian's kernel.

use std::fs;

use libtest_mimic::Failed;
use pagetoll_bill::{Arch, Bill, Operation, Row, Toll, Verdict};

use crate::bench::{Bench, again, costs_the_same, ensure, lacks, must_fail, must_succeed, sums_up};

const MECHANISMS: &str = "read,map,kvm-pre-fault,uffd,replay,exit,continue,hugetlb-2m";

/// Debian's kernel for a processor: what each mechanism puts before the first instruction, and the same counts in another boot.
pub(crate) fn bill(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("restored_memory_is_counted", arch) {
        return Ok(());
    }
    let file = bench.folder.path().join(format!("restore-{arch}.json"));
    let path = file.to_string_lossy().into_owned();
    let order = format!(
        "bill restore --on lab --arch {arch} --pages 512 --batch 1,64 --mechanism {MECHANISMS}"
    );
    let order: Vec<_> = order.split(' ').collect();
    must_succeed(bench.pagetoll(&[&order[..], &["--output", &path]].concat()))?;
    let bill: Bill = serde_json::from_slice(&fs::read(&file)?)?;
    let rows = bill.rows.len();
    ensure(rows == 3 * (4 + 2 * 4), format!("{rows} rows"))?;
    // Debian's 6.1 has no KVM_PRE_FAULT_MEMORY. Of each line the contents are checked, and of lazy ones that they are.
    let passed = bill.checks_with(Verdict::Pass).count();
    ensure(passed == 3 * 11 + 8, format!("{passed} checks passed"))?;
    lacks_prefault(&bill)?;
    boundaries(&bill)?;
    let again = again(bench, &order)?;
    for (row, again) in bill.rows.iter().zip(&again.rows) {
        costs_the_same(row, again)?;
        if row.key.operation == Operation::LastPage {
            sums_up(again)?;
        }
    }
    refusals(bench)
}

fn cost(bill: &Bill, mechanism: &str, batch: u32, boundary: Operation) -> f64 {
    let mut rows = bill.rows.iter().filter(|row| row.key.batch == batch);
    let found = rows.find(|row| {
        row.key.method.name() == mechanism && row.key.operation == boundary && row.cost().is_some()
    });
    found.and_then(Row::cost).unwrap_or(f64::NAN)
}

fn lacks_prefault(bill: &Bill) -> Result<(), Failed> {
    let mut rows = bill.rows.iter();
    let row = rows.find(|row| row.key.method.name() == "kvm-pre-fault");
    let reason = row.and_then(Row::why_unavailable).unwrap_or_default();
    ensure(reason.contains("KVM_CAP_PRE_FAULT_MEMORY"), reason)
}

fn boundaries(bill: &Bill) -> Result<(), Failed> {
    let first = |mechanism, batch| cost(bill, mechanism, batch, Operation::FirstInstruction);
    let last = |mechanism, batch| cost(bill, mechanism, batch, Operation::LastPage);
    ensure(
        first("read", 1) > 10.0 * first("map", 1),
        "reading the image costs little before the first instruction",
    )?;
    ensure(
        last("exit", 64) < last("exit", 1) && last("exit", 1) < last("uffd", 1),
        "a page costs less with a message than with an exit, or alone than with others",
    )?;
    for row in &bill.rows {
        let sum = Toll::sum(row.tolls());
        let is_itemised = row.key.operation == Operation::LastPage;
        let apart = row.cost().map_or(0.0, |cost| (sum - cost).abs());
        ensure(!is_itemised || apart < 1e-6, format!("{}: {sum}", row.key))?;
    }
    Ok(())
}

fn refusals(bench: &Bench) -> Result<(), Failed> {
    for (option, parts) in [
        ("--pages 100", "--pages 100: expected a multiple of 512"),
        ("--batch 3", "--batch 3: expected a power of two"),
        ("--cache cold", "--cache"),
        (
            "--mechanism uffd-prefault",
            "unknown mechanism 'uffd-prefault'",
        ),
    ] {
        let order = format!("bill restore --on lab {option}");
        let order = order.split(' ').collect::<Vec<_>>();
        must_fail(bench.pagetoll(&order), 2, &[parts])?;
    }
    Ok(())
}
