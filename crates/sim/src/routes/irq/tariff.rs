//! What unmasking events pays for.

use pagetoll_bill::cost::CostKey;
use pagetoll_models::linux::EnableEvents;

use crate::routes::price::Item;
use crate::routes::tariff::item;

/// What a mechanism pays for.
pub(crate) fn of(mechanism: EnableEvents) -> Vec<Item> {
    let enters = [
        item("xen_version", CostKey::XEN_VERSION, |w| w.tolls.xen_version),
        item("upcall", CostKey::UPCALL, |w| w.tolls.upcalls),
    ];
    let checks = item("check", CostKey::EVENT_CHECK, |w| w.items);
    match mechanism {
        EnableEvents::Always => enters.to_vec(),
        EnableEvents::IfPending => enters.into_iter().chain([checks]).collect(),
    }
}
