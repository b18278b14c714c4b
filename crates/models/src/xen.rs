//! Xen 4.17's work on the page tables of 64-bit PV guests, as functions over real tables and counts.
//!
//! One file, one concept, under the name that Xen has for it. A guest's mistake is an [`Outcome`] with Xen's errno,
//! never an error of this crate. Source: xen/arch/x86/mm.c and xen/arch/x86/pv/ of RELEASE-4.17.7, a build without
//! debugging (`NDEBUG`), which decides some answers.
//!
//! Not here: translated and shadowed guests, the upper levels of 32-bit guests' tables, grant mappings, preemption (a
//! hypercall runs to its end, so nothing is ever partially validated when it returns), L1TF mitigation by shadowing,
//! LDTs, the entries of Xen's own slots 256 to 271 in L4 tables.

mod adjust;
mod descriptor;
mod direct_map;
mod domain;
mod errno;
mod event_channel;
mod flush;
mod frame;
mod get_page;
mod hypercall;
mod machine;
mod mmu_update;
mod mmuext_op;
mod mod_entry;
mod multicall;
mod native;
mod packed;
mod page_type;
mod priv_op;
mod ptwr;
mod tolls;
mod update_va_mapping;
mod xchg;

#[cfg(test)]
mod tests;

pub use descriptor::Descriptor;
pub use direct_map::DIRECT_MAP;
pub use domain::{DomainId, ForeignDomain, Vcpu, VcpuId};
pub use errno::Errno;
pub use event_channel::{Port, SharedInfo, VcpuInfo};
pub use flush::{FlushTargets, FullFlush, VcpuMask};
pub use frame::{Frame, FrameTable, PageType};
pub use machine::{IoMemory, Layout, Width, Xen};
pub use mmu_update::{Batch, MMU_UPDATE_PREEMPTED, MmuCommand, MmuUpdate};
pub use mod_entry::{exchange_preserving, swapped};
pub use ptwr::exchanged;

pub use mmuext_op::{Argument, Command, MmuExtOp};
pub use multicall::Call;
pub use native::Native;
pub use priv_op::{GeneralProtection, Privileged};
pub use ptwr::Write;
pub use tolls::{Outcome, Tolls};
pub use update_va_mapping::{FlushType, VaMapping};
