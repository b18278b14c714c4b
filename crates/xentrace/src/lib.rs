#![doc = include_str!("../README.md")]
//!
//! # Layers
//!
//! A file is a sequence of *windows*. Each is a CPU change record, written by `xentrace`, and then
//! the bytes that one physical CPU's trace buffer held, written by Xen. All words are 32 bits,
//! little-endian (x86). The layers, each usable alone:
//!
//! 1. [`Reader`]: bytes to [`Record`]s, in file order and in constant memory.
//! 2. [`PvEvent`], [`HvmEvent`], [`SchedEvent`], [`LostRecords`]: one record to its typed payload.
//! 3. [`Summary`]: counts per vcpu, as xenalyze counts, or [`PvDetail`], and [`Times`]; [`Windows`]: counts between two
//!    markers.
//!
//! Beside them are [`symbols`] for the addresses of a trace, [`exit_names`] of KVM and Xen alike, and the [`lock_profile`]s
//! that Xen prints.
//!
//! Sources: the format, `xen/include/public/trace.h` and `xen/common/trace.c`; the windows,
//! `write_buffer` of `tools/xentrace/xentrace.c`; all of Xen 4.17.
//!
//! ```
//! use pagetoll_xentrace::{HypercallOp, Owner, Pcpu, PvCounts, Summary};
//!
//! # fn main() -> Result<(), pagetoll_xentrace::XentraceError> {
//! // CPU 0, a window of 8 bytes: one xen_version hypercall without a time stamp.
//! let words = [0x2001_f003_u32, 0, 8, 0x1020_100d, 17];
//! let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//! let summary = Summary::<PvCounts>::read(bytes.as_slice())?;
//! let counts = summary.get(Owner::Default(Pcpu(0))).copied().unwrap_or_default();
//! assert_eq!(counts.hypercalls.get(HypercallOp::XEN_VERSION), 1);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod counts;
mod detail;
mod error;
mod event;
pub mod exit_names;
mod hvm;
mod hypercall_op;
pub mod lock_profile;
mod order;
mod pv;
mod reader;
mod record;
mod sched;
mod summary;
pub mod symbols;
#[cfg(test)]
mod synthetic;
mod tally;
mod times;
mod windows;

pub use counts::{OpCounts, PvCounts};
pub use detail::{Keep, PvDetail, TrapKind};
pub use error::XentraceError;
pub use event::{Class, EventId};
pub use hvm::{ExitReason, HvmEvent};
pub use hypercall_op::HypercallOp;
pub use pv::{Hypercall, PvEvent};
pub use reader::{DEFAULT_BUFFER_BYTES, MAX_PCPUS, Reader, is_capture};
pub use record::{LostRecords, Pcpu, Record, Words};
pub use sched::{Runstate, SchedEvent, Vcpu};
pub use summary::{MAX_OWNERS, Owner, PcpuLog, Summary};
pub use tally::{MAX_NUMBERS, Tally};
pub use times::{Spell, Times};
pub use windows::{Crossings, Marker, Windows};
