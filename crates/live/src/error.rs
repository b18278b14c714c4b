//! Why a bill of this host, or a pager, could not do its work.

use std::io;

use thiserror::Error;

use crate::pager::PagerError;

/// What went wrong.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The machine lacks something that the order needs.
    #[error("{what}; {remedy}")]
    Environment {
        /// What is missing.
        what: String,
        /// What the user can do about it.
        remedy: String,
    },
    /// The order cannot be carried out anywhere.
    #[error("{0}")]
    BadOrder(String),
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// The call with its operands.
        operation: String,
        /// The errno.
        source: io::Error,
    },
    /// The guest did what it was not built to do.
    #[error("vCPU {vcpu} of {mechanism} ended badly: {how}")]
    Guest {
        /// The mechanism that was being billed.
        mechanism: String,
        /// Which vCPU.
        vcpu: usize,
        /// What KVM said.
        how: String,
    },
    /// The vCPUs did not end in time.
    #[error("{mechanism} on {vcpus} vCPUs did not end within {seconds} s")]
    Hung {
        /// The mechanism that was being billed.
        mechanism: String,
        /// How many vCPUs.
        vcpus: usize,
        /// The limit.
        seconds: u64,
    },
    /// A page could not be brought in.
    #[error(transparent)]
    Pager(#[from] PagerError),
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
}

impl LiveError {
    /// The program's exit code for this error: 2 for bad usage, 3 for a machine that lacks something or a guest that
    /// failed.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::BadOrder(_) => 2,
            _ => 3,
        }
    }

    /// Wraps the errno of a kernel interface.
    pub(crate) fn system<E: Into<io::Error>>(
        operation: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let operation = operation.into();
        move |error| Self::System {
            operation,
            source: error.into(),
        }
    }

    pub(crate) fn environment(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Environment {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
