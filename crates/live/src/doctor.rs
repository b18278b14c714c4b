//! Everything that a live bill of some route takes of this host.

use crate::pci;
use crate::routes::pv::Surroundings;
use pagetoll_live_host::host::{self, Capability};

/// Tries every capability that live bills use; what a Xen PV guest's take, in guests of Xen alone.
#[must_use]
pub fn examine() -> Vec<Capability> {
    let mut found = host::examine();
    found.extend(Surroundings::of_this_host().capabilities());
    found.push(pci::capability());
    found
}
