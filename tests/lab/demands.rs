//! Memory that is paged in on demand by a guest of the lab's guest: a small bill on a kernel without the fix.

use std::fs;

use libtest_mimic::Failed;
use pagetoll_bill::{Arch, Bill, Row, Toll, Verdict};

use crate::bench::{Bench, ensure, lacks, must_fail, must_succeed};

/// Debian's kernel for a processor: what it has is billed and sums up, what it lacks has a reason.
pub(crate) fn bill(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("memory_is_paged_in", arch) {
        return Ok(());
    }
    let file = bench.folder.path().join("demand.json");
    let path = file.to_string_lossy().into_owned();
    let order = format!("bill demand --on lab --arch {arch} --pages 256");
    let order: Vec<_> = order.split(' ').collect();
    must_succeed(bench.pagetoll(&[&order[..], &["--output", &path]].concat()))?;
    let bill: Bill = serde_json::from_slice(&fs::read(&file)?)?;
    let [populated, uffd, batch, exits @ ..] = bill.rows.as_slice() else {
        return Err(format!("{} rows", bill.rows.len()).into());
    };
    ensure(exits.len() == 6, "three mechanisms at two batches")?;
    for row in exits {
        let reason = row.why_unavailable().unwrap_or_default();
        let capability = match row.key.method.to_string().as_str() {
            "exit-bitmap" => "KVM_CAP_USERFAULT",
            _ => "KVM_CAP_EXIT_ON_MISSING",
        };
        ensure(reason.contains(capability), reason)?;
    }
    for row in [populated, uffd, batch] {
        sums_up(row)?;
    }
    ensure(
        populated.cost() < batch.cost() && batch.cost() < uffd.cost(),
        "a userfaultfd costs less than populated memory, or a batch more than its pages alone",
    )?;
    ensure(
        bill.checks_with(Verdict::Pass).count() == 12,
        "a check did not pass",
    )?;
    must_succeed(bench.pagetoll(&["diff", &path, &path]))?;
    profiled(bench, &order, &bill)
}

/// The cases, on Debian's kernel for a processor as a host: each is answered alike, or skipped for what the kernel lacks.
pub(crate) fn conformance(bench: &Bench, arch: Arch) -> Result<(), Failed> {
    if lacks("the_lab_answers_kvm", arch) {
        return Ok(());
    }
    let order = ["conformance", "--suite", "kvm", "--arch", arch.name()];
    let ran = must_succeed(bench.pagetoll(&[&order[..], &["--format", "json"]].concat()))?;
    let compared: serde_json::Value = serde_json::from_slice(&ran.stdout)?;
    let equal = compared["equal"].as_u64();
    ensure(equal > Some(115), format!("only {equal:?} are alike"))
}

/// Booted once more, with all that is executed counted, it costs the same to the digit, and the functions sum up to it.
pub(crate) fn profiled(bench: &Bench, order: &[&str], bill: &Bill) -> Result<(), Failed> {
    let order = [order, &["--profile", "--format", "json"]].concat();
    let again = must_succeed(bench.pagetoll(&order))?;
    let again: Bill = serde_json::from_slice(&again.stdout)?;
    for (row, again) in bill.rows.iter().zip(&again.rows) {
        ensure(row.cost() == again.cost(), format!("{row:?}, {again:?}"))?;
        let Some((cost, profile)) = again.cost().zip(again.profile.as_ref()) else {
            ensure(again.cost().is_none(), format!("{}: no profile", again.key))?;
            continue;
        };
        let sum = profile.cost_per_page();
        let sums_up = (sum - cost).abs() <= cost * 0.001;
        ensure(sums_up, format!("{}: {sum} of {cost}", again.key))?;
    }
    Ok(())
}

fn sums_up(row: &Row) -> Result<(), Failed> {
    let sum = Toll::sum(row.tolls());
    let cost = row.cost().unwrap_or_default();
    ensure(
        cost > 0.0 && (sum - cost).abs() < 1e-6,
        format!("{}: {sum} of {cost}", row.key),
    )?;
    let crossings = row.crossings();
    ensure(
        crossings.is_some_and(|all| all.per_page >= 1.0),
        format!("{crossings:?}"),
    )
}

/// Options of live bills are refused before anything is booted.
pub(crate) fn refusals(bench: &Bench) -> Result<(), Failed> {
    let vcpus = ["bill", "demand", "--on", "lab", "--vcpus", "2"];
    must_fail(bench.pagetoll(&vcpus), 2, &["--vcpus", "--on live"])?;
    let arch = ["bill", "unmap", "--arch", "arm64"];
    must_fail(
        bench.pagetoll(&arch),
        2,
        &["--arch", "only by pin, demand, restore, dirty, discard"],
    )?;
    let mode = "bill demand --on lab --kvm-mode nvhe".split(' ');
    let mode = bench.pagetoll(&mode.collect::<Vec<_>>());
    must_fail(mode, 2, &["--kvm-mode nvhe: expected it with --arch arm64"])?;
    let kernel = "bill demand --on lab --arch arm64 --kernel fix:xen-pv-get-and-clear".split(' ');
    let kernel = bench.pagetoll(&kernel.collect::<Vec<_>>());
    must_fail(
        kernel,
        2,
        &["xen-pv-get-and-clear: there are no patches for arm64"],
    )?;
    let mechanism = ["bill", "demand", "--on", "lab", "--mechanism", "exit"];
    must_fail(
        bench.pagetoll(&mechanism),
        2,
        &["unknown mechanism 'exit'", "exit-on-missing"],
    )
}
