//! From bills of the lab to the figures of a host table.
//!
//! Only the smallest and the largest batch of each mechanism are read, so that everything between them is left for
//! predictions to be held against. What a call costs is the difference between the two over the difference in calls.

use pagetoll_bill::cost::{CostKey, Kind};
use pagetoll_bill::{Backend, Bill, Route, Row, System, Unit, crossing};

/// What two counted bills of the same order differ by at most when guest programs were built anew: 0.1 %.
const SPREAD: f64 = 0.001;
/// What is believed of a figure that is taken to be like a measured one: 10 % either way.
const ASSUMED_SPREAD: f64 = 0.1;

/// A figure that was derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// Which.
    pub key: CostKey,
    /// Its value in instructions.
    pub value: f64,
    /// Nothing below is believed.
    pub low: f64,
    /// Nothing above is believed.
    pub high: f64,
    /// Measured, or assumed to be like one that was.
    pub kind: Kind,
    /// How it was derived.
    pub source: String,
}

/// The figures that a bill of the lab holds; empty for any other bill.
#[must_use]
pub fn figures(bill: &Bill) -> Vec<Derived> {
    if bill.backend != Backend::Lab || bill.unit != Unit::Instructions {
        return Vec::new();
    }
    let of = |system| Rows { bill, system };
    let (dom0, pv32) = (of(System::XenPvDom0), of(System::XenPv32Dom0));
    let figures = match bill.route {
        Route::Unmap => [unmap(dom0), unmap_of_32_bits(pv32)],
        Route::Fault => [fault(dom0), fault_of_32_bits(pv32)],
        Route::Switch => [switch(dom0), None],
        Route::Irq => [irq(dom0), None],
        Route::Flush | Route::Pin | Route::Demand => [None, None],
    };
    figures.into_iter().flatten().flatten().collect()
}

/// The rows of a bill that one system gave.
#[derive(Clone, Copy)]
struct Rows<'a> {
    bill: &'a Bill,
    system: System,
}

fn unmap(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let read = only(bill, "read")?;
    let entry = only(bill, "empty-hypercall")? - read;
    let mut figures = vec![
        measured(CostKey::ENTRY_READ, read, "row read"),
        measured(
            CostKey::HYPERCALL_ENTRY,
            entry,
            "rows empty-hypercall less read",
        ),
    ];
    for (mechanism, reads, call, each) in BATCHED {
        let (per_call, per_entry) = ends(bill, mechanism)?;
        let from = format!("rows {mechanism} at the smallest and largest batch");
        figures.push(measured(
            call,
            per_call - entry,
            &format!("{from}: cost over calls, less hypercall.entry"),
        ));
        figures.push(measured(
            each,
            per_entry - reads * read,
            &format!("{from}: what is left at no calls, less {reads} entry.read"),
        ));
    }
    let clear = value(&figures, CostKey::MMU_UPDATE_CLEAR)?;
    let set_pte = only(bill, "set-pte")? - read - entry - clear;
    let update_va = only(bill, "update-va")? - read - entry;
    let ptwr = only(bill, "emulate")?;
    figures.extend([
        measured(
            CostKey::SET_PTE_CALL,
            set_pte,
            "row set-pte less entry.read, hypercall.entry and mmu_update.clear",
        ),
        measured(
            CostKey::UPDATE_VA_MAPPING_CLEAR,
            update_va,
            "row update-va less entry.read and hypercall.entry",
        ),
        measured(CostKey::PTWR_XCHG, ptwr, "row emulate"),
    ]);
    figures.extend(unmeasured(&figures)?);
    Some(figures)
}

/// The mechanisms that take several entries, how often each entry is read, and the two figures of each.
const BATCHED: [(&str, f64, CostKey, CostKey); 3] = [
    (
        "mmu-update",
        1.0,
        CostKey::MMU_UPDATE_CALL,
        CostKey::MMU_UPDATE_CLEAR,
    ),
    (
        "preserve-ad",
        2.0,
        CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL,
        CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD,
    ),
    ("lazy", 1.0, CostKey::LAZY_CALL, CostKey::LAZY_CLEAR),
];

fn fault(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let entry = only(bill, "empty-hypercall")? - only(bill, "nothing")?;
    let store = of(bill, "set", "emulate")?;
    let set = of(bill, "set", "hypercall")? - entry;
    Some(vec![
        measured(CostKey::PTWR_STORE, store, "row set by emulate"),
        measured(
            CostKey::MMU_UPDATE_SET,
            set,
            "row set by hypercall, less an empty hypercall",
        ),
    ])
}

fn switch(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let entry = only(bill, "empty-hypercall")? - only(bill, "nothing")?;
    let compare = of(bill, "none-changed", "if-changed")?;
    let descriptor = of(bill, "one-changed", "if-changed")? - compare - entry;
    let multicall = of(bill, "none-changed", "always")? - entry - 3.0 * descriptor;
    Some(vec![
        measured(
            CostKey::TLS_COMPARE,
            compare,
            "row none-changed by if-changed",
        ),
        measured(
            CostKey::UPDATE_DESCRIPTOR,
            descriptor,
            "row one-changed by if-changed, less tls.compare and an empty hypercall",
        ),
        measured(
            CostKey::SWITCH_MULTICALL,
            multicall,
            "row none-changed by always, less three update_descriptor and an empty hypercall",
        ),
    ])
}

fn irq(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let xen_version = of(bill, "none-pending", "always")?;
    let upcall = of(bill, "one-pending", "always")? - xen_version;
    Some(vec![
        measured(
            CostKey::EVENT_CHECK,
            of(bill, "none-pending", "if-pending")?,
            "row none-pending by if-pending",
        ),
        measured(
            CostKey::XEN_VERSION,
            xen_version,
            "row none-pending by always",
        ),
        measured(
            CostKey::UPCALL,
            upcall,
            "row one-pending by always, less xen_version",
        ),
    ])
}

/// A 32-bit guest's: emulated stores to each half, each counted by itself, and a hypercall.
fn fault_of_32_bits(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let whose = of_32_bits(bill);
    let entry = only(bill, "empty-hypercall")? - only(bill, "nothing")?;
    let set = of(bill, "set", "hypercall")? - entry;
    let half = |key, part| {
        Some(measured(
            key,
            only(bill, part)?,
            &format!("{whose} row {part}"),
        ))
    };
    Some(vec![
        half(CostKey::PTWR_HALF, "store-upper-half")?,
        half(CostKey::PTWR_HALF_SET, "store-lower-half")?,
        measured(
            CostKey::HYPERCALL_ENTRY_PAE,
            entry,
            &format!("{whose} rows empty-hypercall less nothing"),
        ),
        measured(
            CostKey::MMU_UPDATE_SET_PAE,
            set,
            &format!("{whose} row set by hypercall, less an empty hypercall"),
        ),
    ])
}

/// A 32-bit guest's: an emulated exchange of the half that holds P, by itself; cmpxchg8b; and the hypercall, whose entry
/// the fault route gives.
fn unmap_of_32_bits(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let whose = of_32_bits(bill);
    let read = only(bill, "read")?;
    let entry = only(bill, "empty-hypercall")? - read;
    let (per_call, per_entry) = ends(bill, "preserve-ad")?;
    let from = format!("{whose} rows preserve-ad at the smallest and largest batch");
    let row = |name: &str| format!("{whose} row {name}");
    Some(vec![
        measured(CostKey::ENTRY_READ_PAE, read, &row("read")),
        measured(
            CostKey::PTWR_HALF_XCHG,
            only(bill, "xchg-lower-half")?,
            &row("xchg-lower-half"),
        ),
        measured(
            CostKey::PTWR_CMPXCHG8B,
            only(bill, "cmpxchg8b")? - read,
            &row("cmpxchg8b less read"),
        ),
        measured(
            CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL_PAE,
            per_call - entry,
            &format!("{from}: cost over calls, less an empty hypercall"),
        ),
        measured(
            CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_PAE,
            per_entry - 2.0 * read,
            &format!("{from}: what is left at no calls, less 2 entry.read.pae"),
        ),
    ])
}

/// Whose rows the figures of 32-bit guests come from: they may have run on a Xen of their own.
fn of_32_bits(bill: Rows<'_>) -> String {
    let xen = bill.bill.stack.get("xen-pv32").map_or("?", String::as_str);
    format!("xen-pv32-dom0 (Xen {xen} with CONFIG_PV32),")
}

/// What no guest of the lab does: the exchange hypercall is a proposal.
fn unmeasured(figures: &[Derived]) -> Option<Vec<Derived>> {
    let call = value(figures, CostKey::MMU_UPDATE_CALL)?;
    let preserving = value(figures, CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD)?;
    Some(vec![
        assumed(CostKey::XCHG_CALL, call, "as mmu_update.call"),
        assumed(
            CostKey::XCHG_CLEAR,
            preserving,
            "as mmu_update.clear.preserve-ad: an old value is copied out instead of A and D read back",
        ),
    ])
}

fn measured(key: CostKey, value: f64, source: &str) -> Derived {
    derived((key, Kind::Measured), value, SPREAD, source)
}

fn assumed(key: CostKey, value: f64, source: &str) -> Derived {
    derived((key, Kind::Assumed), value, ASSUMED_SPREAD, source)
}

fn derived((key, kind): (CostKey, Kind), value: f64, spread: f64, source: &str) -> Derived {
    Derived {
        key,
        value,
        low: value * (1.0 - spread),
        high: value * (1.0 + spread),
        kind,
        source: source.to_owned(),
    }
}

fn value(figures: &[Derived], key: CostKey) -> Option<f64> {
    let found = figures.iter().find(|figure| figure.key == key);
    found.map(|figure| figure.value)
}

/// The cost of a mechanism that is billed at one batch.
fn only(bill: Rows<'_>, mechanism: &str) -> Option<f64> {
    rows(bill, mechanism).find_map(|row| row.cost_per_page)
}

fn rows<'a>(of: Rows<'a>, mechanism: &'a str) -> impl Iterator<Item = &'a Row> {
    let is_wanted = move |row: &&Row| row.system == of.system && row.mechanism == mechanism;
    of.bill.rows.iter().filter(is_wanted)
}

/// The cost of an operation by a mechanism that is billed at one batch.
fn of(bill: Rows<'_>, operation: &str, mechanism: &str) -> Option<f64> {
    let mut rows = rows(bill, mechanism).filter(|row| row.operation == operation);
    rows.find_map(|row| row.cost_per_page)
}

/// What one more call costs, and what an entry costs without calls.
fn ends(bill: Rows<'_>, mechanism: &str) -> Option<(f64, f64)> {
    let smallest = rows(bill, mechanism).min_by_key(|row| row.batch)?;
    let largest = rows(bill, mechanism).max_by_key(|row| row.batch)?;
    let (most, fewest) = (calls(smallest)?, calls(largest)?);
    let (dearest, cheapest) = (smallest.cost_per_page?, largest.cost_per_page?);
    if most <= fewest {
        return None;
    }
    let per_call = (dearest - cheapest) / (most - fewest);
    Some((per_call, dearest - per_call * most))
}

/// The hypercalls for each page among the crossings.
fn calls(row: &Row) -> Option<f64> {
    let traps = row
        .crossings
        .iter()
        .filter(|(kind, _)| crossing::is_trap(kind));
    let trapped: f64 = traps.map(|(_, count)| count).sum();
    row.crossings_per_page.map(|all| all - trapped)
}
