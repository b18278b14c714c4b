//! The routes of a Xen PV guest, billed in the guest that this host is: a dom0, or another domain.
//!
//! What the lab boots for a session, a process of this host's does: the same steps, by the same probe, timed by the same
//! counter. Nothing that was here before is changed; the probe is loaded for the run and unloaded whatever happens.

mod bill;
mod module;
mod request;
pub(crate) mod steps;
mod surroundings;

pub(crate) use bill::{bill, intentions};
pub(crate) use request::Request;
pub use surroundings::{Guest, Surroundings};

/// Whether this host is a PV guest of Xen.
#[must_use]
pub fn is_xen_pv_guest() -> bool {
    Surroundings::of_this_host().guest().is_ok()
}
