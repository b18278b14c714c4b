//! Why a bill of this host, or a pager, failed.

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
    /// An order that no host can carry out.
    #[error("{0}")]
    BadOrder(String),
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    System {
        /// The call with its operands.
        operation: String,
        /// errno of the call.
        source: io::Error,
    },
    /// An exit that no program of the guest causes.
    #[error("vCPU {vcpu} of {mechanism} failed: {how}")]
    Guest {
        /// As orders name it.
        mechanism: String,
        /// Its number, from 0.
        vcpu: usize,
        /// The exit or errno, with RIP and CR2.
        how: String,
    },
    /// The vCPUs timed out.
    #[error("{mechanism} on {vcpus} vCPUs timed out after {seconds} s")]
    Hung {
        /// As orders name it.
        mechanism: String,
        /// vCPUs of the run.
        vcpus: usize,
        /// The limit, in wall time.
        seconds: u64,
    },
    /// A page could not be populated.
    #[error(transparent)]
    Pager(#[from] PagerError),
    /// Stopped from outside, as by Ctrl-C.
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
