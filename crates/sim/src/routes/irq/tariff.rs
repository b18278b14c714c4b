//! Tariff of unmasking events.

use pagetoll_bill::route::Irq;
use pagetoll_cost::CostKey;

use crate::routes::price::Item;
use crate::routes::tariff::item;

/// Items that a mechanism pays for.
pub(crate) fn items(mechanism: Irq) -> Vec<Item> {
    let enters = [
        item("xen_version", CostKey::XEN_VERSION, |w| w.tolls.xen_version),
        item("upcall", CostKey::UPCALL, |w| w.tolls.upcalls),
    ];
    let checks = item("check", CostKey::EVENT_CHECK, |w| w.items);
    match mechanism {
        Irq::Always => enters.to_vec(),
        Irq::IfPending => enters.into_iter().chain([checks]).collect(),
    }
}
