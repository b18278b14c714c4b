//! Errors of a perf.data file, each with its byte.

use std::io;

use thiserror::Error;

/// Failure to read a file further. Offsets are those of the file; inside compressed data, that of its record.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The source failed.
    #[error("byte {offset}: reading failed: {source}")]
    Io {
        /// Bytes read before.
        offset: u64,
        /// Error of the source.
        source: io::Error,
    },
    /// Another file.
    #[error("byte 0: not a perf.data file: expected `PERFILE2`, found {found:?}")]
    NotPerfData {
        /// The first bytes, what is no ASCII escaped.
        found: String,
    },
    /// A file of a big-endian machine.
    #[error("byte 0: a perf.data file of a big-endian machine: expected a little-endian one")]
    BigEndian,
    /// A file where a stream was expected: what is needed first is at its end.
    #[error("byte 8: a perf.data file that is no stream: open it as a file")]
    NotAStream,
    /// A field with a value that no perf writes.
    #[error("byte {offset}: {field} is {found}, expected {expected}")]
    Field {
        /// Position of the field.
        offset: u64,
        /// In the kernel's or perf's spelling.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Values that it may have.
        expected: &'static str,
    },
    /// A record, or a structure, that ends before a field.
    #[error("byte {offset}: {record} ends before its field {field}")]
    Short {
        /// Position of the record.
        offset: u64,
        /// Name of the record.
        record: &'static str,
        /// The field.
        field: &'static str,
    },
    /// Compressed data that zstd refuses.
    #[error("byte {offset}: compressed record: zstd reports {reason}")]
    Zstd {
        /// Position of the record.
        offset: u64,
        /// In zstd's words.
        reason: &'static str,
    },
}

impl PerfDataError {
    /// The byte of the file at fault.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match self {
            Self::NotPerfData { .. } | Self::BigEndian => 0,
            Self::NotAStream => 8,
            Self::Io { offset, .. }
            | Self::Field { offset, .. }
            | Self::Short { offset, .. }
            | Self::Zstd { offset, .. } => *offset,
        }
    }
}
