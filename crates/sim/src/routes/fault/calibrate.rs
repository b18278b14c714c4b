//! Figures from rows of fault: of a 64-bit dom0 and of a 32-bit one.

use pagetoll_bill::Operation;
use pagetoll_bill::route::Fault;
use pagetoll_bill::row::Baseline;
use pagetoll_cost::{CostKey, Derived};

use crate::routes::derived::{Rows, cost, measured, part, source_32_bit};

/// Figures from the rows of a 64-bit dom0; `None` where a row is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let entry = part(bill, Baseline::EmptyHypercall)? - part(bill, Baseline::Nothing)?;
    let store = cost(bill, Operation::Set, Fault::Emulate)?;
    let set = cost(bill, Operation::Set, Fault::Hypercall)? - entry;
    Some(vec![
        measured(CostKey::PTWR_STORE, store, "row set by emulate"),
        measured(
            CostKey::MMU_UPDATE_SET,
            set,
            "row set by hypercall, less an empty hypercall",
        ),
    ])
}

/// A 32-bit guest's: emulated stores to each half, each counted by itself, and a hypercall.
pub(crate) fn pae_figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let whose = source_32_bit(bill);
    let entry = part(bill, Baseline::EmptyHypercall)? - part(bill, Baseline::Nothing)?;
    let set = cost(bill, Operation::Set, Fault::Hypercall)? - entry;
    let half = |key, baseline| {
        Some(measured(
            key,
            part(bill, baseline)?,
            &format!("{whose} row {baseline}"),
        ))
    };
    Some(vec![
        half(CostKey::PTWR_HALF, Baseline::StoreUpperHalf)?,
        half(CostKey::PTWR_HALF_SET, Baseline::StoreLowerHalf)?,
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
