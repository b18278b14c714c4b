//! How boots are carried out, whatever is booted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Error;
use pagetoll_bill::spec::{LabSpec, Wanted};

/// Limits of a boot, and what is kept of it.
#[derive(Clone, Debug)]
pub struct BootOptions {
    /// Whether what was counted before may take its place.
    pub counts: Counts,
    /// Whether a snapshot may.
    pub start: Start,
    /// It fails after this much CPU time of its QEMU, for each vCPU, without a report; or as much idle time.
    pub timeout: Duration,
    /// Where consoles and traces are kept; `None` keeps them only when something fails.
    pub keep_logs: Option<PathBuf>,
}

/// What becomes of what a guest has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// It is kept, and not counted again.
    Kept,
    /// It is counted again, and kept.
    Anew,
    /// It is not kept.
    Apart,
}

/// Where a guest that is run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a snapshot, where there is one; one that is booted leaves one.
    Restored,
    /// At its boot.
    Cold,
}

impl BootOptions {
    /// As ordered.
    ///
    /// # Errors
    /// A file in place of the folder for logs.
    pub(crate) fn of(lab: &LabSpec, timeout: Duration) -> Result<Self, Error> {
        check_folder("--keep-logs", lab.keep_logs.as_deref())?;
        Ok(Self {
            counts: match (lab.cold, lab.fresh) {
                (Wanted::No, Wanted::No) => Counts::Kept,
                (Wanted::Yes, _) | (_, Wanted::Yes) => Counts::Anew,
            },
            start: match lab.cold {
                Wanted::Yes => Start::Cold,
                Wanted::No => Start::Restored,
            },
            timeout: lab.timeout.unwrap_or(timeout),
            keep_logs: lab.keep_logs.clone(),
        })
    }

    /// The same for an order of so many runs: repetitions are all run, and none is kept.
    pub(crate) fn of_runs(self, runs: u32) -> Self {
        match runs {
            0 | 1 => self,
            _ => self.apart(),
        }
    }

    /// The same for what is neither kept nor was counted before.
    pub(crate) fn apart(self) -> Self {
        Self {
            counts: Counts::Apart,
            ..self
        }
    }

    /// The same for what enters no figure: it is asked once of a guest, unless all are booted.
    pub(crate) fn of_names(&self) -> Self {
        let counts = match self.start {
            Start::Restored => Counts::Kept,
            Start::Cold => self.counts,
        };
        Self {
            counts,
            ..self.clone()
        }
    }

    /// The same with logs in a folder below.
    pub(crate) fn below(&self, folder: &str) -> Self {
        let keep_logs = self.keep_logs.as_ref().map(|logs| logs.join(folder));
        Self {
            keep_logs,
            ..self.clone()
        }
    }

    /// Where logs are kept.
    pub(crate) fn logs(&self) -> Option<&Path> {
        self.keep_logs.as_deref()
    }
}

/// Refuses a file where a folder is made or written to.
///
/// # Errors
/// [`Class::BadInput`](pagetoll_backend::Class::BadInput).
fn check_folder(flag: &str, folder: Option<&Path>) -> Result<(), Error> {
    match folder {
        Some(path) if path.exists() && !path.is_dir() => Err(Error::bad_input(format!(
            "{flag} {}: is a file; expected a folder",
            path.display()
        ))),
        _ => Ok(()),
    }
}
