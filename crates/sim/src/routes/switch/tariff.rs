//! Tariff of loading TLS descriptors at a context switch.

use pagetoll_bill::route::Switch;
use pagetoll_cost::CostKey;

use crate::routes::price::Item;
use crate::routes::tariff::{entry, item};

/// Items that a mechanism pays for.
pub(crate) fn items(mechanism: Switch) -> Vec<Item> {
    let loads = [
        entry(CostKey::HYPERCALL_ENTRY),
        item("multicall", CostKey::SWITCH_MULTICALL, |w| {
            w.tolls.multicall
        }),
        item("descriptor", CostKey::UPDATE_DESCRIPTOR, |w| {
            w.tolls.descriptors
        }),
    ];
    let compares = item("compare", CostKey::TLS_COMPARE, |w| w.items);
    match mechanism {
        Switch::Always => loads.to_vec(),
        Switch::IfChanged => loads.into_iter().chain([compares]).collect(),
    }
}
