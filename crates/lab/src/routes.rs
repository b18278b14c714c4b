//! How the lab bills each route: its boots, and the rows that follow from them.

pub mod demand;
mod fault;
mod flush;
mod irq;
pub mod pin;
mod switch;
mod unmap;

use pagetoll_bill::{Order, Route, Row};

use crate::dom0::collect::Job;
use crate::dom0::findings::Findings;
use crate::dom0::plan::Abilities;

/// A route on a dom0.
pub(crate) struct Billing {
    /// The boots; the largest machines first.
    pub(crate) jobs: fn(&Order, Abilities) -> Vec<Job>,
    /// What they found, as rows, in the order in which they are read.
    pub(crate) rows: fn(&Order, &Findings) -> Vec<Row>,
    /// What a reader should know of every bill of this route.
    pub(crate) notes: &'static [&'static str],
    /// Whether QEMU counts the instructions that flush TLBs.
    pub(crate) counts_flushes: bool,
}

/// What a route is billed on.
pub(crate) enum Way {
    /// A dom0, and the same kernel without Xen.
    Dom0(&'static Billing),
    /// A kernel that has a guest of KVM.
    Demand,
    /// A kernel with an IOMMU and a device behind it.
    Pin,
}

/// How `route` is billed.
pub(crate) const fn of(route: Route) -> Way {
    match route {
        Route::Unmap => Way::Dom0(&unmap::BILLING),
        Route::Fault => Way::Dom0(&fault::BILLING),
        Route::Switch => Way::Dom0(&switch::BILLING),
        Route::Irq => Way::Dom0(&irq::BILLING),
        Route::Flush => Way::Dom0(&flush::BILLING),
        Route::Pin => Way::Pin,
        Route::Demand => Way::Demand,
    }
}
