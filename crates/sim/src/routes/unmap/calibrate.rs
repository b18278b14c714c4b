//! From the lab's rows of unmap to figures: of a 64-bit dom0 and of a 32-bit one.

use pagetoll_bill::cost::CostKey;
use pagetoll_bill::{Row, crossing};

use crate::routes::derived::{Derived, Rows, assumed, measured, of_32_bits, only, rows, value};

/// What a 64-bit dom0's rows give.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
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

/// A 32-bit guest's: an emulated exchange of the half that holds P, by itself; cmpxchg8b; and the hypercall, whose entry
/// the fault route gives.
pub(crate) fn pae_figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
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
