//! The kinds of crossings into a hypervisor that rows list; hypercalls go by their own names.

/// A store to a page table that was emulated.
pub const PTWR: &str = "ptwr";
/// A page fault that was passed on to the guest.
pub const PAGE_FAULT: &str = "page-fault";
/// Any other exception.
pub const OTHER_TRAP: &str = "other-trap";
/// The hypervisor's own re-entry of a hypercall that it had preempted to serve an interrupt. Listed, but no crossing
/// that the mechanism asked for.
pub const CONTINUATION: &str = "continuation";

/// True for the kinds that are exceptions.
#[must_use]
pub fn is_trap(kind: &str) -> bool {
    [PTWR, PAGE_FAULT, OTHER_TRAP].contains(&kind)
}
