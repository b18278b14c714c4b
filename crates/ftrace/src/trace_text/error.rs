//! Errors of a text.

use std::io;

use thiserror::Error;

/// Failure to read a text, with its line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceTextError {
    /// The source failed.
    #[error("line {line}: reading failed: {source}")]
    Io {
        /// The line, from 1.
        line: u64,
        /// Error of the source.
        source: io::Error,
    },
    /// Not one line is an event.
    #[error(
        "line {line}: no event up to here; expected lines such as `COMM TID [CPU] SECONDS.MICROSECONDS: EVENT: FIELDS`"
    )]
    NoEvents {
        /// The last line.
        line: u64,
    },
}
