//! The routes beside unmap: fewer crossings, known crossings, and costs that repeat to the last digit.

use libtest_mimic::Failed;
use pagetoll_bill::{Bill, Role, Row, System, Toll, Verdict};
use pagetoll_test_support::skipped_test;

use crate::bench::{Bench, must_succeed};

/// Two independent boots of each kind, of a small order.
fn bill_of(bench: &Bench, route: &str) -> Result<Bill, Failed> {
    let small = ["--on", "lab", "--pages", "1024", "--runs", "2"];
    let mut command = bench.pagetoll(&["bill", route, "--format", "json"]);
    command.args(small);
    let bill: Bill = serde_json::from_slice(&must_succeed(command)?.stdout)?;
    must_be_sound(&bill)?;
    Ok(bill)
}

fn ensure(holds: bool, what: impl Into<String>) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

/// What holds of every bill: both runs count the same, tolls sum to the cost, and every check passed.
fn must_be_sound(bill: &Bill) -> Result<(), Failed> {
    for row in bill.rows.iter().filter(|row| !is_refused(row)) {
        let name = format!("{} {}", row.operation, row.mechanism);
        let cost = row.cost_per_page.ok_or(format!("{name} has no cost"))?;
        let same = row.runs.windows(2).all(|runs| runs[0] == runs[1]);
        ensure(
            same && row.runs.len() == 2,
            format!("{name}: {:?}", row.runs),
        )?;
        if !row.tolls.is_empty() {
            let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
            ensure(
                (sum - cost).abs() < 1e-6,
                format!("{name}: {sum}, not {cost}"),
            )?;
        }
        for check in &row.checks {
            let what = format!("{name}: {check:?}");
            ensure(check.verdict == Verdict::Pass, what)?;
        }
        let counted = row.crossings_per_page.is_some();
        let under_xen = row.system != System::Native && row.role != Role::Baseline;
        ensure(
            counted == under_xen,
            format!("{name}: crossings counted: {counted}"),
        )?;
    }
    Ok(())
}

/// What a Xen of Debian's answers for a 32-bit guest.
fn is_refused(row: &Row) -> bool {
    let why = row.unavailable.as_deref().unwrap_or_default();
    row.system == System::XenPv32Dom0 && why.contains("CONFIG_PV32")
}

fn row<'a>(bill: &'a Bill, operation: &str, mechanism: &str) -> Result<&'a Row, Failed> {
    let mut rows = bill.rows.iter();
    rows.find(|row| row.operation == operation && row.mechanism == mechanism)
        .ok_or_else(|| format!("no row {operation} {mechanism}").into())
}

fn crossings(bill: &Bill, operation: &str, mechanism: &str) -> Result<f64, Failed> {
    let counted = row(bill, operation, mechanism)?.crossings_per_page;
    counted.ok_or_else(|| format!("{operation} {mechanism}: no crossings").into())
}

fn must_be_cheaper(bill: &Bill, operation: &str, names: [&str; 2]) -> Result<(), Failed> {
    let [before, after] = names.map(|name| row(bill, operation, name));
    let (before, after) = (before?.cost_per_page, after?.cost_per_page);
    ensure(
        after < before,
        format!("{operation}: {before:?}, then {after:?}"),
    )
}

/// What was written is there; a trap each way or a hypercall each way, and the hypercall is cheaper.
pub(crate) fn fault(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "fault")?;
    must_be_cheaper(&bill, "set", ["emulate", "hypercall"])?;
    let [emulate, hypercall] = ["emulate", "hypercall"].map(|name| row(&bill, "set", name));
    let (emulate, hypercall) = (&emulate?.crossings, &hypercall?.crossings);
    ensure(emulate.get("ptwr") == Some(&1.0), format!("{emulate:?}"))?;
    let one_call = hypercall.get("mmu_update") == Some(&1.0) && hypercall.len() == 1;
    ensure(one_call, format!("{hypercall:?}"))?;
    two_traps_are_one_hypercall(bill)
}

/// Of a 32-bit guest, whose Xen is built from Debian's source where this machine can do that.
fn two_traps_are_one_hypercall(mut bill: Bill) -> Result<(), Failed> {
    bill.rows.retain(|row| row.system == System::XenPv32Dom0);
    if let Some(reason) = bill.rows.iter().find_map(|row| row.unavailable.as_ref()) {
        skipped_test("a 32-bit guest's faults", reason);
        return is_told(&bill);
    }
    must_be_cheaper(&bill, "set", ["emulate-2x32", "hypercall"])?;
    let traps = crossings(&bill, "set", "emulate-2x32")?;
    let calls = crossings(&bill, "set", "hypercall")?;
    ensure(
        (traps, calls) == (2.0, 1.0),
        format!("{traps}, then {calls}"),
    )
}

/// Debian builds its Xen without `CONFIG_PV32`: where it is given as a file, the rows say so, and so does a note.
pub(crate) fn fault_of_32_bits_on_a_xen_without_them(bench: &Bench) -> Result<(), Failed> {
    let mut command = bench.pagetoll(&["bill", "fault", "--format", "json", "--on", "lab"]);
    command.args(["--pages", "1024", "--mechanism", "emulate-2x32,hypercall"]);
    command.arg("--xen").arg(&bench.xen);
    is_told(&serde_json::from_slice(&must_succeed(command)?.stdout)?)
}

fn is_told(bill: &Bill) -> Result<(), Failed> {
    let refused = bill.rows.iter().filter(|row| is_refused(row)).count();
    let told = bill.notes.iter().any(|note| note.contains("CONFIG_PV32"));
    ensure(refused == 2 && told, format!("{:?}", bill.notes))
}

/// Unchanged descriptors cost no crossing; one that changed is cheaper than three in a multicall.
pub(crate) fn switch(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "switch")?;
    let names = ["always", "if-changed"];
    must_be_cheaper(&bill, "none-changed", names)?;
    must_be_cheaper(&bill, "one-changed", names)?;
    let always = crossings(&bill, "none-changed", "always")?;
    let if_changed = crossings(&bill, "none-changed", "if-changed")?;
    let what = format!("{always} crossings, then {if_changed}");
    ensure(always >= 1.0 && if_changed == 0.0, what)
}

/// Nothing pending costs no crossing; an event that is pending is delivered by either mechanism.
pub(crate) fn irq(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "irq")?;
    must_be_cheaper(&bill, "none-pending", ["always", "if-pending"])?;
    let always = crossings(&bill, "none-pending", "always")?;
    let if_pending = crossings(&bill, "none-pending", "if-pending")?;
    let what = format!("{always} crossings, then {if_pending}");
    ensure(always >= 1.0 && if_pending < 0.01, what)?;
    let delivered = row(&bill, "one-pending", "if-pending")?;
    let called = delivered.crossings.get("xen_version");
    ensure(called == Some(&1.0), format!("{:?}", delivered.crossings))
}

/// A flush writes CR4 twice with global pages, CR3 once without: as Xen's sources say and QEMU counts.
pub(crate) fn flush(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "flush")?;
    if let Some(note) = bill.notes.iter().find(|note| note.contains("not counted")) {
        skipped_test("a_flush_writes_what_xen_says", note);
        return Ok(());
    }
    let writes = |operation, mechanism, register: &str| -> Result<f64, Failed> {
        let tolls = &row(&bill, operation, mechanism)?.tolls;
        let toll = tolls.iter().find(|toll| toll.name == register);
        Ok(toll.map_or(0.0, |toll| toll.count_per_page))
    };
    for (mechanism, expected) in [
        ("global-pages", [0.0, 2.0]),
        ("no-global-pages", [1.0, 0.0]),
    ] {
        for operation in ["flush-local", "flush-all"] {
            let found = [
                writes(operation, mechanism, "cr3-write")?,
                writes(operation, mechanism, "cr4-write")?,
            ];
            ensure(
                found == expected,
                format!("{operation} {mechanism}: {found:?}"),
            )?;
        }
    }
    let switched = writes("context-switch", "no-global-pages", "cr3-write")?;
    ensure(
        switched >= 1.0,
        format!("{switched} CR3 writes for a switch"),
    )
}
