//! The routes beside unmap: fewer crossings, known crossings, and costs that repeat to the last digit.

use libtest_mimic::Failed;
use pagetoll_bill::route::{Fault, Flush, Irq, Mechanism, Switch};
use pagetoll_bill::{Bill, Crossings, Operation, Role, Row, RowKey, System, Toll, Verdict};
use pagetoll_test_support::skipped_test;

use crate::bench::{Bench, ensure, must_succeed};

/// Two independent boots of each kind, of a small order.
fn bill_of(bench: &Bench, route: &str) -> Result<Bill, Failed> {
    let small = ["--on", "lab", "--pages", "1024", "--runs", "2"];
    let mut command = bench.pagetoll(&["bill", route, "--format", "json"]);
    command.args(small);
    let bill: Bill = serde_json::from_slice(&must_succeed(command)?.stdout)?;
    must_be_sound(&bill)?;
    Ok(bill)
}

/// Checks that hold for every bill: both runs count the same, tolls sum to the cost, and every check passed.
fn must_be_sound(bill: &Bill) -> Result<(), Failed> {
    for row in bill.rows.iter().filter(|row| !is_refused(row)) {
        let name = &row.key;
        let figures = row.figures().ok_or(format!("{name} has no cost"))?;
        let same = figures.runs.windows(2).all(|runs| runs[0] == runs[1]);
        ensure(
            same && figures.runs.len() == 2,
            format!("{name}: {:?}", figures.runs),
        )?;
        if !figures.tolls.is_empty() {
            let (sum, cost) = (Toll::sum(&figures.tolls), figures.cost_per_page);
            ensure(
                (sum - cost).abs() < 1e-6,
                format!("{name}: {sum}, not {cost}"),
            )?;
        }
        for check in &row.checks {
            let what = format!("{name}: {check:?}");
            ensure(check.verdict == Verdict::Pass, what)?;
        }
        let counted = figures.crossings.is_some();
        let under_xen = row.key.system != System::Native && row.role() != Role::Baseline;
        ensure(
            counted == under_xen,
            format!("{name}: crossings counted: {counted}"),
        )?;
    }
    Ok(())
}

/// True for the row of a 32-bit guest that Debian's Xen refuses.
fn is_refused(row: &Row) -> bool {
    let why = row.why_unavailable().unwrap_or_default();
    row.key.system == System::XenPv32Dom0 && why.contains("CONFIG_PV32")
}

fn dom0(operation: Operation, mechanism: impl Into<Mechanism>) -> RowKey {
    RowKey::new(operation, mechanism, System::XenPvDom0)
}

fn row<'a>(bill: &'a Bill, key: &RowKey) -> Result<&'a Row, Failed> {
    Ok(bill.row(key).ok_or_else(|| format!("no row {key}"))?)
}

fn crossings<'a>(bill: &'a Bill, key: &RowKey) -> Result<&'a Crossings, Failed> {
    let counted = row(bill, key)?.crossings();
    Ok(counted.ok_or_else(|| format!("{key}: no crossings"))?)
}

fn must_cost_less(bill: &Bill, after: &RowKey, before: &RowKey) -> Result<(), Failed> {
    let [now, then] = [after, before].map(|key| row(bill, key).map(Row::cost));
    let (now, then) = (now?, then?);
    ensure(now < then, format!("{before}: {then:?}, then {now:?}"))
}

/// Checks that the written entries are there, by a trap or a hypercall each, and that the hypercall costs less.
pub(crate) fn fault(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "fault")?;
    let [emulate, hypercall] =
        [Fault::Emulate, Fault::Hypercall].map(|one| dom0(Operation::Set, one));
    must_cost_less(&bill, &hypercall, &emulate)?;
    let trapped = &crossings(&bill, &emulate)?.by_kind;
    ensure(trapped.get("ptwr") == Some(&1.0), format!("{trapped:?}"))?;
    let called = &crossings(&bill, &hypercall)?.by_kind;
    let one_call = called.get("mmu_update") == Some(&1.0) && called.len() == 1;
    ensure(one_call, format!("{called:?}"))?;
    two_traps_are_one_hypercall(bill)
}

/// Checks a 32-bit guest, whose Xen is built from Debian's source where this machine can do that.
fn two_traps_are_one_hypercall(mut bill: Bill) -> Result<(), Failed> {
    bill.rows
        .retain(|row| row.key.system == System::XenPv32Dom0);
    if let Some(reason) = bill.rows.iter().find_map(Row::why_unavailable) {
        skipped_test("a 32-bit guest's faults", reason);
        return is_explained(&bill);
    }
    let key = |mechanism: Fault| RowKey::new(Operation::Set, mechanism, System::XenPv32Dom0);
    let (emulate, hypercall) = (key(Fault::Emulate2x32), key(Fault::Hypercall));
    must_cost_less(&bill, &hypercall, &emulate)?;
    let traps = crossings(&bill, &emulate)?.per_page;
    let calls = crossings(&bill, &hypercall)?.per_page;
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
    is_explained(&serde_json::from_slice(&must_succeed(command)?.stdout)?)
}

fn is_explained(bill: &Bill) -> Result<(), Failed> {
    let refused = bill.rows.iter().filter(|row| is_refused(row)).count();
    let noted = bill.notes.iter().any(|note| note.contains("CONFIG_PV32"));
    ensure(refused == 2 && noted, format!("{:?}", bill.notes))
}

/// Unchanged descriptors cost no crossing; one that changed costs less than three in a multicall.
pub(crate) fn switch(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "switch")?;
    let keys = |operation| [Switch::Always, Switch::IfChanged].map(|one| dom0(operation, one));
    let [always, if_changed] = keys(Operation::OneChanged);
    must_cost_less(&bill, &if_changed, &always)?;
    let [always, if_changed] = keys(Operation::NoneChanged);
    must_cost_less(&bill, &if_changed, &always)?;
    let always = crossings(&bill, &always)?.per_page;
    let if_changed = crossings(&bill, &if_changed)?.per_page;
    let what = format!("{always} crossings, then {if_changed}");
    ensure(always >= 1.0 && if_changed == 0.0, what)
}

/// Checks that nothing pending costs no crossing, and that either mechanism delivers a pending event.
pub(crate) fn irq(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "irq")?;
    let [always, if_pending] =
        [Irq::Always, Irq::IfPending].map(|one| dom0(Operation::NonePending, one));
    must_cost_less(&bill, &if_pending, &always)?;
    let always = crossings(&bill, &always)?.per_page;
    let if_pending = crossings(&bill, &if_pending)?.per_page;
    let what = format!("{always} crossings, then {if_pending}");
    ensure(always >= 1.0 && if_pending < 0.01, what)?;
    let delivered = crossings(&bill, &dom0(Operation::OnePending, Irq::IfPending))?;
    let called = delivered.by_kind.get("xen_version");
    ensure(called == Some(&1.0), format!("{delivered:?}"))
}

/// A flush writes CR4 twice with global pages, CR3 once without: as Xen's sources say and QEMU counts.
pub(crate) fn flush(bench: &Bench) -> Result<(), Failed> {
    let bill = bill_of(bench, "flush")?;
    if let Some(note) = bill.notes.iter().find(|note| note.contains("not counted")) {
        skipped_test("a_flush_writes_the_registers_of_its_mechanism", note);
        return Ok(());
    }
    let writes = |operation, mechanism: Flush, register: &str| -> Result<f64, Failed> {
        let tolls = row(&bill, &dom0(operation, mechanism))?.tolls();
        let toll = tolls.iter().find(|toll| toll.name == register);
        Ok(toll.map_or(0.0, |toll| toll.count_per_page))
    };
    for (mechanism, expected) in [
        (Flush::GlobalPages, [0.0, 2.0]),
        (Flush::NoGlobalPages, [1.0, 0.0]),
    ] {
        for operation in [Operation::FlushLocal, Operation::FlushAll] {
            let found = [
                writes(operation, mechanism, "cr3-write")?,
                writes(operation, mechanism, "cr4-write")?,
            ];
            let key = dom0(operation, mechanism);
            ensure(found == expected, format!("{key}: {found:?}"))?;
        }
    }
    let switched = writes(Operation::ContextSwitch, Flush::NoGlobalPages, "cr3-write")?;
    ensure(
        switched >= 1.0,
        format!("{switched} CR3 writes for a switch"),
    )
}
