//! Items that the tariffs of several routes share: which figure of a cost table a toll costs each time, and which count it
//! is multiplied with.
//!
//! A tariff only reads what was counted on the models; no count is computed from the order.

use pagetoll_cost::CostKey;
use pagetoll_models::linux::RouteRun;

use super::price::Item;

pub(crate) const fn item(toll: &'static str, key: CostKey, count: fn(&RouteRun) -> u64) -> Item {
    Item { toll, key, count }
}

/// The guest reads an entry.
pub(crate) const fn read(key: CostKey) -> Item {
    item("read-entry", key, |w| w.tolls.entries_read)
}

/// Into Xen and back, for each hypercall.
pub(crate) const fn entry(key: CostKey) -> Item {
    item("hypercall-entry", key, |w| w.tolls.hypercalls)
}

/// Item of a hypercall: its cost beyond its entry and its requests.
pub(crate) const fn call(key: CostKey) -> Item {
    item("per-call", key, |w| w.tolls.hypercalls)
}

/// One request of a hypercall.
pub(crate) const fn per_entry(key: CostKey) -> Item {
    item("per-entry", key, |w| w.tolls.requests)
}

/// One trapped and emulated write.
pub(crate) const fn trap(key: CostKey) -> Item {
    item("trap-and-emulate", key, |w| w.tolls.emulations)
}

/// A 32-bit guest's store to the half of an entry that leaves it not present.
pub(crate) const UPPER_HALF: Item = item("upper-half", CostKey::PTWR_HALF, |w| {
    w.tolls.emulations - w.tolls.emulated_half_sets - w.tolls.emulated_half_exchanges
});
