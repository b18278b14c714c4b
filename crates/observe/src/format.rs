//! Which format a capture has: its content says so.

use std::io::{self, Read};

use pagetoll_traces::symbols::Symbols;
use pagetoll_traces::xentrace::{self as records, XentraceError};
use thiserror::Error;

use crate::observation::Observation;
use crate::xentrace;

/// As much of a capture as tells its format.
const HEAD: u64 = 4096;

/// Why a capture was not read, so that `FILE: {it}` reads well.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Its content is of no format that is known.
    #[error("is no capture that can be read; expected one of: {}", Format::names())]
    Unknown,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is damaged.
    #[error(transparent)]
    Xentrace(#[from] XentraceError),
}

/// A format of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// What Xen's xentrace writes.
    Xentrace,
}

impl Format {
    const ALL: [Self; 1] = [Self::Xentrace];

    const fn name(self) -> &'static str {
        match self {
            Self::Xentrace => "xentrace's file",
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    fn is_of(self, head: &[u8]) -> bool {
        match self {
            Self::Xentrace => records::is_capture(head),
        }
    }

    fn of(head: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.is_of(head))
    }
}

/// Reads a capture of any format to its end, or to where it is cut off; errors and the result call it `file`.
///
/// # Errors
/// [`ReadError`].
pub fn observe(
    file: &str,
    mut source: impl Read,
    symbols: &Symbols,
) -> Result<Observation, ReadError> {
    let mut head = Vec::new();
    source.by_ref().take(HEAD).read_to_end(&mut head)?;
    let format = Format::of(&head).ok_or(ReadError::Unknown)?;
    let whole = head.as_slice().chain(source);
    Ok(match format {
        Format::Xentrace => xentrace::observe(file, whole, symbols)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_capture_is_refused_with_what_would_be_one() {
        let of = |bytes: &[u8]| {
            observe("f", bytes, &Symbols::default())
                .unwrap_err()
                .to_string()
        };
        let expected = "is no capture that can be read; expected one of: xentrace's file";
        for bytes in [&b""[..], b"hello", b"{}"] {
            assert_eq!(of(bytes), expected);
        }
    }
}
