//! Tariff of getting and clearing entries.

use pagetoll_bill::route::Unmap;
use pagetoll_cost::CostKey;
use pagetoll_models::xen::Width;

use crate::routes::price::Item;
use crate::routes::tariff::{UPPER_HALF, call, entry, item, per_entry, read, trap};

const READ: Item = read(CostKey::ENTRY_READ);
const ENTRY: Item = entry(CostKey::HYPERCALL_ENTRY);
/// A 32-bit guest enters Xen by an interrupt and reads an entry in two, so it has figures of its own.
const READ_PAE: Item = read(CostKey::ENTRY_READ_PAE);
const ENTRY_PAE: Item = entry(CostKey::HYPERCALL_ENTRY_PAE);

/// Items that a mechanism pays for in a guest of `width`.
pub(crate) fn items(mechanism: Unmap, width: Width) -> Vec<Item> {
    match mechanism {
        Unmap::Emulate => vec![trap(CostKey::PTWR_XCHG)],
        Unmap::SetPte => vec![
            READ,
            ENTRY,
            call(CostKey::SET_PTE_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR),
        ],
        Unmap::UpdateVa => vec![
            READ,
            ENTRY,
            item("update", CostKey::UPDATE_VA_MAPPING_CLEAR, |w| {
                w.tolls.hypercalls
            }),
        ],
        Unmap::Lazy => vec![
            READ,
            ENTRY,
            call(CostKey::LAZY_CALL),
            per_entry(CostKey::LAZY_CLEAR),
        ],
        Unmap::MmuUpdate => vec![
            READ,
            ENTRY,
            call(CostKey::MMU_UPDATE_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR),
        ],
        Unmap::PreserveAd => preserve_ad(width),
        Unmap::Xchg => vec![
            ENTRY,
            call(CostKey::XCHG_CALL),
            per_entry(CostKey::XCHG_CLEAR),
        ],
        Unmap::XchgAndStore => vec![
            item("lower-half", CostKey::PTWR_HALF_XCHG, |w| {
                w.tolls.emulated_half_exchanges
            }),
            UPPER_HALF,
        ],
        Unmap::Cmpxchg8b => vec![READ_PAE, trap(CostKey::PTWR_CMPXCHG8B)],
    }
}

fn preserve_ad(width: Width) -> Vec<Item> {
    match width {
        Width::Bits64 => vec![
            READ,
            ENTRY,
            call(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD),
        ],
        Width::Pae32 => vec![
            READ_PAE,
            ENTRY_PAE,
            call(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL_PAE),
            per_entry(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_PAE),
        ],
    }
}
