//! x86-64: the page of a fault that KVM does not report is found by the instruction, the registers and the page tables.

mod decoding;
mod operands;
mod run;
mod tables;
mod walk;

pub(super) use decoding::Decoding;
pub use operands::CpuState;
pub(super) use run::{attach, place};

/// Decoding finds the page of a fault that KVM does not report.
pub const DECODES_FAULTS: bool = true;

/// Reason for a fault without a page.
pub(super) const UNEXPLAINED: &str = "no page is missing that the instruction may touch";
