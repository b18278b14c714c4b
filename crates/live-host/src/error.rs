//! Errors of a bill of this host.

use std::io;

use pagetoll_backend::{Class, Classified, Stopped};
use pagetoll_bill::OrderError;
use pagetoll_pager::PagerError;
use pagetoll_vmm::Error as MachineError;
use thiserror::Error;
use vm_memory::GuestMemoryError;

/// Failure that ended a bill, a measurement or a conformance case early.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The machine lacks something that the order needs.
    #[error("{what}; {remedy}")]
    Environment {
        /// The missing part, named as `doctor` does.
        what: String,
        /// Remedy for the user.
        remedy: String,
    },
    /// A number or a name in the order is out of range.
    #[error(transparent)]
    Order(#[from] OrderError),
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
        /// Its name in orders.
        mechanism: String,
        /// Its number, from 0.
        vcpu: usize,
        /// The exit or errno, with where the guest stands, and its last fault.
        how: String,
    },
    /// The vCPUs timed out.
    #[error("{mechanism} on {vcpus} vCPUs timed out after {seconds} s")]
    Hung {
        /// Its name in orders.
        mechanism: String,
        /// vCPUs of the run.
        vcpus: usize,
        /// The limit, in wall time.
        seconds: u64,
    },
    /// A page could not be populated.
    #[error(transparent)]
    Pager(#[from] PagerError),
    /// Images, builds, the cache, or a process.
    #[error(transparent)]
    Images(#[from] pagetoll_host::Error),
    /// A session in this guest came to no good end.
    #[error("the session failed: {0}")]
    Session(String),
    /// Stopped from outside, as by Ctrl-C.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<MachineError> for LiveError {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Environment { what, remedy } => Self::environment(what, remedy),
            MachineError::System { operation, source } => Self::System { operation, source },
            MachineError::Memory(problem) => Self::BadOrder(problem),
        }
    }
}

impl From<GuestMemoryError> for LiveError {
    fn from(error: GuestMemoryError) -> Self {
        MachineError::from(error).into()
    }
}

impl Classified for LiveError {
    fn class(&self) -> Class {
        match self {
            Self::Order(_) | Self::BadOrder(_) => Class::BadInput,
            Self::Environment { .. }
            | Self::System { .. }
            | Self::Guest { .. }
            | Self::Hung { .. }
            | Self::Session(_)
            | Self::Pager(_) => Class::Environment,
            Self::Images(error) => error.class(),
            Self::Stopped(_) => Class::Stopped,
        }
    }
}

impl LiveError {
    /// Wraps the errno of a kernel interface.
    pub fn system<E: Into<io::Error>>(operation: impl Into<String>) -> impl FnOnce(E) -> Self {
        let failed = MachineError::system(operation);
        move |error| failed(error).into()
    }

    /// A lack of the machine, and its remedy.
    pub fn environment(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Environment {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
