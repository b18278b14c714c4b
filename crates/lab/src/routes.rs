//! The harness of each route in the lab.

pub(crate) mod count;
pub mod demand;
pub(crate) mod dirty;
pub(crate) mod discard;
pub mod pin;
pub(crate) mod restore;

use pagetoll_bill::Route;
use pagetoll_pv::routes::{self, Billing};

/// The guests that a route is billed in.
pub(crate) enum Harness {
    /// A dom0, and the same kernel without Xen.
    Dom0(&'static Billing),
    /// A kernel that has a guest of KVM.
    Demand,
    /// A kernel that has a guest of KVM, and finds which pages that writes.
    Dirty,
    /// A kernel that has a guest of KVM, and discards its memory.
    Discard,
    /// A kernel that has a guest of KVM, and restores its memory from an image.
    Restore,
    /// A kernel with an IOMMU and a device behind it.
    Pin,
    /// None: billed on this host alone.
    None,
    /// A kernel that a program of the user's own runs on, and the same kernel as dom0.
    Count,
}

impl Harness {
    pub(crate) const fn new(route: Route) -> Self {
        match route {
            Route::Unmap => Self::Dom0(&routes::UNMAP),
            Route::Fault => Self::Dom0(&routes::FAULT),
            Route::Switch => Self::Dom0(&routes::SWITCH),
            Route::Irq => Self::Dom0(&routes::IRQ),
            Route::Flush => Self::Dom0(&routes::FLUSH),
            Route::Demand => Self::Demand,
            Route::Pin => Self::Pin,
            Route::Dirty => Self::Dirty,
            Route::Discard => Self::Discard,
            Route::Restore => Self::Restore,
            Route::Migrate => Self::None,
            Route::Count => Self::Count,
        }
    }
}
