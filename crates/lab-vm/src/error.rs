//! Failures of the lab.
//!
//! A guest that refuses or faults is an outcome, reported in the bill; here is what kept an order from being carried out.

use std::path::PathBuf;

use pagetoll_backend::{Class, Classified, Stopped};
use pagetoll_host::Error;
use thiserror::Error as ThisError;

/// Failures of the lab.
#[derive(Debug, ThisError)]
pub enum LabError {
    /// An image could not be had, or a file, a child or the machine failed.
    #[error(transparent)]
    Images(#[from] Error),

    /// A guest panicked, hung, or printed a malformed report.
    #[error("the {boot} guest failed: {problem}; its console is in {}", .log.display())]
    Guest {
        /// Which boot.
        boot: String,
        /// The failure, in the guest's own words where it has any.
        problem: String,
        /// Its console.
        log: PathBuf,
    },

    /// The user's program failed, or did not do what its order says.
    #[error("the program in the {boot} guest: {problem}")]
    Program {
        /// Which boot.
        boot: String,
        /// The failure, with the last lines of the program.
        problem: String,
    },

    /// A report that contradicts the order or itself.
    #[error("malformed report from the {boot} guest: {problem}")]
    Malformed {
        /// Which boot.
        boot: String,
        /// The contradiction.
        problem: String,
    },
}

impl From<Stopped> for LabError {
    fn from(stopped: Stopped) -> Self {
        Self::Images(stopped.into())
    }
}

impl Classified for LabError {
    fn class(&self) -> Class {
        match self {
            Self::Images(error) => error.class(),
            Self::Guest { .. } | Self::Program { .. } | Self::Malformed { .. } => {
                Class::Environment
            }
        }
    }
}
