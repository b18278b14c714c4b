//! Tariff of setting an entry.

use pagetoll_bill::route::Fault;
use pagetoll_cost::CostKey;
use pagetoll_models::xen::Width;

use crate::routes::price::Item;
use crate::routes::tariff::{UPPER_HALF, entry, item, per_entry, trap};

/// Items that a mechanism pays for in a guest of `width`.
pub(crate) fn items(mechanism: Fault, width: Width) -> Vec<Item> {
    match (mechanism, width) {
        (Fault::Emulate, _) => vec![trap(CostKey::PTWR_STORE)],
        (Fault::Emulate2x32, _) => vec![
            UPPER_HALF,
            item("lower-half", CostKey::PTWR_HALF_SET, |w| {
                w.tolls.emulated_half_sets
            }),
        ],
        (Fault::Hypercall, Width::Bits64) => vec![
            entry(CostKey::HYPERCALL_ENTRY),
            per_entry(CostKey::MMU_UPDATE_SET),
        ],
        (Fault::Hypercall, Width::Pae32) => vec![
            entry(CostKey::HYPERCALL_ENTRY_PAE),
            per_entry(CostKey::MMU_UPDATE_SET_PAE),
        ],
    }
}
