//! Guest memory as a search for missing pages sees it.

use vm_memory::GuestAddress;

/// State of a page of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Reading it does not fault.
    Present,
    /// Guest memory that has not been populated yet.
    Missing,
    /// It is no guest memory: a device, or nothing.
    Outside,
}

/// Guest memory of which parts may be missing. Reading must never fault.
pub trait GuestPages {
    /// The state of the page that holds this address.
    fn state(&self, address: GuestAddress) -> PageState;

    /// Reads bytes of one present page. What cannot be read stays as it is.
    fn read(&self, address: GuestAddress, bytes: &mut [u8]);
}
