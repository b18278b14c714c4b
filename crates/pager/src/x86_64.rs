//! What the pager knows of x86-64: a fault that KVM does not describe is found by the instruction, the registers and the
//! page tables.

mod decoding;
mod operands;
mod run;
mod tables;
mod walk;

pub(super) use decoding::Decoding;
pub use operands::CpuState;
pub(super) use run::{attach, place};

/// Why a fault has no page.
pub(super) const UNEXPLAINED: &str = "no page is missing that the instruction may touch";
