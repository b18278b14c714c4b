//! Memory of a guest of the lab's guest that is given back: a small bill of discards on Debian's kernel.

use std::fs;

use libtest_mimic::Failed;
use pagetoll_bill::row::{Backing, Discarded, Found, Frees};
use pagetoll_bill::{Arch, Bill, Operation, Row, Verdict};

use crate::bench::{Bench, counts_again, ensure, lacks, must_succeed};

const CALLS: &str = "madv-dontneed,map-fixed,punch-hole";

/// Debian's kernel for a processor: what is free, what goes beside, and the same counts in another boot.
pub(crate) fn bill(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("discarded_memory_is_counted", arch) {
        return Ok(());
    }
    let file = bench.folder.path().join(format!("discard-{arch}.json"));
    let path = file.to_string_lossy().into_owned();
    let order = format!(
        "bill discard --on lab --arch {arch} --backing anonymous,memfd --batch 1 --mechanism {CALLS}"
    );
    let order: Vec<_> = order.split(' ').collect();
    must_succeed(bench.pagetoll(&[&order[..], &["--output", &path]].concat()))?;
    let bill: Bill = serde_json::from_slice(&fs::read(&file)?)?;
    let rows = bill.rows.len();
    ensure(rows == 2 * 3 * 3, format!("{rows} rows"))?;
    // Anonymous memory has no file of which a hole could be punched.
    let passed = bill.checks_with(Verdict::Pass).count();
    ensure(passed == 5 * 3, format!("{passed} checks passed"))?;
    frees(&bill)?;
    beside(&bill)?;
    counts_again(bench, &order, &bill)
}

fn row<'b>(
    bill: &'b Bill,
    backing: Backing,
    call: &str,
    operation: Operation,
) -> Result<&'b Row, Failed> {
    let mut rows = bill.rows.iter();
    let found = rows.find(|row| {
        row.key.backing == Some(backing)
            && row.key.method.name() == call
            && row.key.operation == operation
    });
    found.ok_or_else(|| format!("no {operation} of {call} on {backing}").into())
}

fn figures<'b>(bill: &'b Bill, backing: Backing, call: &str) -> Result<&'b Discarded, Failed> {
    let row = row(bill, backing, call, Operation::Discard)?;
    let figures = row.figures().and_then(|figures| figures.discarded.as_ref());
    figures.ok_or_else(|| format!("no figures of {call} on {backing}").into())
}

fn frees(bill: &Bill) -> Result<(), Failed> {
    let (anonymous, memfd) = (Backing::Anonymous, Backing::Memfd);
    for (backing, call, frees, found) in [
        (anonymous, "madv-dontneed", Frees::All, Found::Zeroes),
        (anonymous, "map-fixed", Frees::All, Found::Zeroes),
        (memfd, "madv-dontneed", Frees::Nothing, Found::Old),
        (memfd, "map-fixed", Frees::Nothing, Found::Zeroes),
        (memfd, "punch-hole", Frees::All, Found::Zeroes),
    ] {
        let is = figures(bill, backing, call)?;
        ensure(
            (is.frees, is.found) == (frees, found),
            format!("{call} on {backing}: {is:?}"),
        )?;
    }
    let punched = row(bill, anonymous, "punch-hole", Operation::Discard)?;
    let reason = punched.why_unavailable().unwrap_or_default();
    ensure(reason.contains("EBADF"), reason)
}

/// MADV_DONTNEED takes the pages that it is of; MAP_FIXED the 2 MiB around, and the guest exits for each of them.
fn beside(bill: &Bill) -> Result<(), Failed> {
    for (call, pages) in [("madv-dontneed", 0.0), ("map-fixed", 511.0)] {
        let figures = figures(bill, Backing::Anonymous, call)?;
        ensure(
            figures.faults_beside_per_call == Some(pages),
            format!("{call}: {figures:?}"),
        )?;
        ensure(
            figures.beside_per_call.is_none_or(|beside| beside == pages),
            format!("{call}: {figures:?}"),
        )?;
        let touched = row(bill, Backing::Anonymous, call, Operation::TouchBeside)?;
        let crossings = touched
            .figures()
            .and_then(|figures| figures.crossings.as_ref());
        let per_page = crossings.map(|crossings| crossings.per_page);
        ensure(
            per_page == Some(if pages > 0.0 { 1.0 } else { 0.0 }),
            format!("{call}: {per_page:?} exits a page beside"),
        )?;
    }
    Ok(())
}
