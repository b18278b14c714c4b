//! Linux's tracepoints, typed: those that say what a page cost, whatever they were recorded with.
//!
//! The layers:
//!
//! 1. [`Event`]: who did what, when and where; [`Payload`] is what.
//! 2. [`Item`]: an event, or a gap where records were lost. Readers hand over items in the order of the trace.
//! 3. [`Tally`]: what a reader passed over, by name, and what was lost. Nothing is dropped in silence.
//!
//! [`Tracepoint`] reads the binary form and [`trace_text`](crate::trace_text) the printed ones. Both give the same events:
//! [`Payload`] says where the printed form holds less, and what both become.
//!
//! Sources: `include/trace/events`, `arch/x86/kvm/trace.h`, `arch/x86/kvm/mmu/mmutrace.h`, `arch/arm64/kvm/trace_arm.h`,
//! `arch/x86/include/asm/trace` of Linux 4.19 to 6.18.

mod event;
mod exit_reason;
mod fields;
mod format;
mod known;
mod machine;
mod memory_call;
mod payload;
mod print_text;
mod record;
mod symbols;
mod tally;
mod userspace_exit;
mod words;
mod xen;

pub use event::{Event, Item, Lost, Name, Names, Stamp, Task};
pub use format::{Layout, Tracepoint};
pub use machine::Machine;
pub use memory_call::{Edge, HostWork, MemoryCall};
pub use payload::{
    FastPageFault, Iova, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, PageFault, Payload,
    SetSpte, SplitHugePage, SpteChanged, SpteRequested, TlbFlush, TlbFlushReason, UserspaceExit,
};
pub use tally::{MAX_NAMES, Tally, Truncated};
pub use words::Missing;
pub use xen::{McFlush, Xen, XenMmuOp};

pub(crate) use fields::RawRecord;
pub(crate) use format::Format;
pub(crate) use known::Known;
pub(crate) use memory_call::MemoryCallName;
pub(crate) use words::Words;
