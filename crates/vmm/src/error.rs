//! Errors of a machine.

use std::io;

use thiserror::Error;
use vm_memory::GuestMemoryError;

/// Failure to make a machine or to run its guest.
#[derive(Debug, Error)]
pub enum Error {
    /// This process has no KVM.
    #[error("{what}; {remedy}")]
    Environment {
        /// File or interface that is missing.
        what: String,
        /// Change of the host that provides it.
        remedy: &'static str,
    },
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// The call with its operands.
        operation: String,
        /// errno of the call.
        source: io::Error,
    },
    /// Guest memory of a size or a kind that no machine has.
    #[error("{0}")]
    Memory(String),
}

impl Error {
    /// Wraps the errno of a kernel interface.
    pub fn system<E: Into<io::Error>>(operation: impl Into<String>) -> impl FnOnce(E) -> Self {
        let operation = operation.into();
        move |error| Self::System {
            operation,
            source: error.into(),
        }
    }
}

impl From<GuestMemoryError> for Error {
    fn from(error: GuestMemoryError) -> Self {
        Self::System {
            operation: "access to guest memory".into(),
            source: io::Error::other(error.to_string()),
        }
    }
}
