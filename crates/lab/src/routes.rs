//! How the lab bills each route: its boots, and the rows that follow from them.

pub mod demand;
pub mod pin;

use pagetoll_bill::Route;
use pagetoll_pv::routes::{self, Billing};

/// What a route is billed on.
pub(crate) enum Harness {
    /// A dom0, and the same kernel without Xen.
    Dom0(&'static Billing),
    /// A kernel that has a guest of KVM.
    Demand,
    /// A kernel with an IOMMU and a device behind it.
    Pin,
}

/// How `route` is billed.
pub(crate) fn of(route: Route) -> Harness {
    match (routes::billing(route), route) {
        (Some(billing), _) => Harness::Dom0(billing),
        (None, Route::Demand) => Harness::Demand,
        (None, _) => Harness::Pin,
    }
}
