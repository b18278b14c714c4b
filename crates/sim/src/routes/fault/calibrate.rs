//! From the lab's rows of fault to figures: of a 64-bit dom0 and of a 32-bit one.

use pagetoll_bill::cost::CostKey;

use crate::routes::derived::{Derived, Rows, measured, of, of_32_bits, only};

/// What a 64-bit dom0's rows give.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
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

/// A 32-bit guest's: emulated stores to each half, each counted by itself, and a hypercall.
pub(crate) fn pae_figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
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
