//! Errors of a trace, each with its byte.

use std::io;

use thiserror::Error;

use super::{EventId, Pcpu};

/// Failure to read or count a trace further.
///
/// Every variant carries the byte offset, from the start of the stream, of the record at fault.
/// The trace is to blame in all of them but [`Io`](Self::Io).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XentraceError {
    /// The source failed; reading may be tried again.
    #[error("byte {offset}: reading the trace failed: {source}")]
    Io {
        /// Bytes read before.
        offset: u64,
        /// Error of the source.
        source: io::Error,
    },
    /// The stream does not begin as `xentrace` begins every file.
    #[error(
        "byte 0: not an xentrace file: expected a CPU change record (0x2001f003), found {found:#010x}"
    )]
    NotXentrace {
        /// The first word of the stream.
        found: u32,
    },
    /// A window ended, and something other than the next window follows.
    #[error("byte {offset}: expected a CPU change record (0x2001f003), found {found:#010x}")]
    ExpectedCpuChange {
        /// Position at which the record was expected.
        offset: u64,
        /// The word found there.
        found: u32,
    },
    /// A CPU change record before its predecessor's window was over.
    #[error("byte {offset}: CPU change record, but the window of CPU {cpu} has {left} bytes left")]
    UnexpectedCpuChange {
        /// Position of the record.
        offset: u64,
        /// The CPU whose window it is.
        cpu: Pcpu,
        /// Bytes of the window not yet read.
        left: u32,
    },
    /// A CPU change record with a CPU that no Xen can have.
    #[error("byte {offset}: CPU {cpu} in a CPU change record, expected one below {limit}")]
    CpuOutOfRange {
        /// Position of the record.
        offset: u64,
        /// The CPU that the record names.
        cpu: u32,
        /// The first number refused.
        limit: u32,
    },
    /// A window whose size is not a multiple of four bytes.
    #[error("byte {offset}: window of {bytes} bytes for CPU {cpu}, expected a multiple of 4")]
    UnalignedWindow {
        /// Position of its CPU change record.
        offset: u64,
        /// The CPU whose window it is.
        cpu: Pcpu,
        /// The size that the record states.
        bytes: u32,
    },
    /// The stream ended inside a record.
    #[error(
        "byte {offset}: the trace ends inside a record: expected {needed} bytes, found {found}"
    )]
    TruncatedRecord {
        /// Position of the record.
        offset: u64,
        /// The bytes that the record takes, as far as is known.
        needed: usize,
        /// The bytes that were there.
        found: usize,
    },
    /// The stream ended between two records of a window.
    #[error(
        "byte {offset}: the trace ends inside a window: expected {missing} more bytes of CPU {cpu}"
    )]
    TruncatedWindow {
        /// End of the stream.
        offset: u64,
        /// The CPU whose window it is.
        cpu: Pcpu,
        /// Bytes of the window that are missing.
        missing: u32,
    },
    /// A record larger than what is left of its window.
    #[error(
        "byte {offset}: record {event} of {needed} bytes, but its window has {left} bytes left"
    )]
    RecordExceedsWindow {
        /// Position of the record.
        offset: u64,
        /// Event of the record.
        event: EventId,
        /// The bytes that its header announces.
        needed: usize,
        /// The bytes left in the window.
        left: u32,
    },
    /// A record with fewer extra words than its event has.
    #[error("byte {offset}: record {event} with {found} extra words, expected {needed}")]
    ShortPayload {
        /// Position of the record.
        offset: u64,
        /// Event of the record.
        event: EventId,
        /// The extra words that the event has.
        needed: usize,
        /// The extra words found.
        found: usize,
    },
    /// A hypercall record that declares an argument with the reserved presence bits `11`.
    #[error("byte {offset}: record {event} with a reserved argument size in {word:#010x}")]
    ReservedArgument {
        /// Position of the record.
        offset: u64,
        /// Event of the record.
        event: EventId,
        /// The word that holds the presence bits.
        word: u32,
    },
    /// More vcpus than any real trace names; counting them would not stay in bounded memory.
    #[error("byte {offset}: PV records of more than {limit} vcpus")]
    TooManyVcpus {
        /// Position of the first record of the vcpu too many.
        offset: u64,
        /// Number of vcpus that are counted.
        limit: usize,
    },
    /// An end marker without the begin marker of the same id on the same CPU.
    #[error("byte {offset}: end of window {id} on CPU {cpu}, but it was not begun there")]
    EndWithoutBegin {
        /// Position of the end marker.
        offset: u64,
        /// The CPU that recorded it.
        cpu: Pcpu,
        /// Id of the window.
        id: u16,
    },
    /// A begin marker inside another window of the same CPU.
    #[error(
        "byte {offset}: begin of window {id} on CPU {cpu} inside window {open}, begun at byte {opened_at}"
    )]
    NestedBegin {
        /// Position of the begin marker.
        offset: u64,
        /// The CPU that recorded it.
        cpu: Pcpu,
        /// Id of the window.
        id: u16,
        /// The id of the window that is open.
        open: u16,
        /// Position of the open window's begin marker.
        opened_at: u64,
    },
    /// A begin marker whose end marker never came.
    #[error("byte {offset}: window {id} begins on CPU {cpu} and never ends there")]
    UnterminatedWindow {
        /// Position of the begin marker.
        offset: u64,
        /// The CPU that recorded it.
        cpu: Pcpu,
        /// Id of the window.
        id: u16,
    },
    /// Xen lost records inside a window: its counts are too low.
    #[error("byte {offset}: {lost} records lost inside window {id} on CPU {cpu}")]
    LostInWindow {
        /// Position of the lost-records record.
        offset: u64,
        /// The CPU that lost them.
        cpu: Pcpu,
        /// The id of the window.
        id: u16,
        /// Number of records that are missing.
        lost: u32,
    },
}

impl XentraceError {
    /// The byte of the stream, counted from 0, at which the record at fault begins.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match self {
            Self::NotXentrace { .. } => 0,
            Self::Io { offset, .. }
            | Self::ExpectedCpuChange { offset, .. }
            | Self::UnexpectedCpuChange { offset, .. }
            | Self::CpuOutOfRange { offset, .. }
            | Self::UnalignedWindow { offset, .. }
            | Self::TruncatedRecord { offset, .. }
            | Self::TruncatedWindow { offset, .. }
            | Self::RecordExceedsWindow { offset, .. }
            | Self::ShortPayload { offset, .. }
            | Self::ReservedArgument { offset, .. }
            | Self::TooManyVcpus { offset, .. }
            | Self::EndWithoutBegin { offset, .. }
            | Self::NestedBegin { offset, .. }
            | Self::UnterminatedWindow { offset, .. }
            | Self::LostInWindow { offset, .. } => *offset,
        }
    }

    /// True if the stream just stopped early, as when the disk filled or `xentrace` was killed.
    /// Every record before that point has been yielded and is sound.
    #[must_use]
    pub const fn is_truncation(&self) -> bool {
        matches!(
            self,
            Self::TruncatedRecord { .. } | Self::TruncatedWindow { .. }
        )
    }
}
