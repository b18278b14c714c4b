//! A boot before it starts: its images and files, its limits, and the earlier work that may take its place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Error;
use pagetoll_bill::spec::{LabSpec, Wanted};

use crate::counter::Counter;
use crate::machine::Machine;

/// A boot of one guest.
#[derive(Clone, Copy)]
pub struct Boot<'a> {
    /// The name of this boot, for progress and logs.
    pub name: &'a str,
    /// The machine that boots.
    pub machine: Machine,
    /// The hypervisor, for [`Firmware::Xen`](crate::machine::Firmware::Xen).
    pub xen: Option<&'a Path>,
    /// The kernel.
    pub linux: &'a Path,
    /// The archive that it boots with.
    pub initramfs: &'a [u8],
    /// Files for a guest that is ready; `None` for one that boots with everything and never stops.
    pub delivery: Option<&'a [u8]>,
    /// The plugin that counts beside the clock.
    pub counter: Option<&'a Counter>,
    /// Limits, and the reuse of results.
    pub options: &'a BootOptions,
}

/// Limits of a boot, and the reuse of its results.
#[derive(Clone, Debug)]
pub struct BootOptions {
    /// Earlier work that may take the place of a boot.
    pub reuse: Reuse,
    /// Keeping of counts for later runs.
    pub keep_counts: Wanted,
    /// CPU time of QEMU for each vCPU without a report, or idle time, after which the boot fails.
    pub timeout: Duration,
    /// The folder for consoles and traces; `None` keeps a console only when its guest fails.
    pub keep_logs: Option<PathBuf>,
}

/// Earlier work that may take the place of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Counts of the same guest with the same order; else a snapshot.
    Counts,
    /// A snapshot of the guest, which is made where there is none.
    Snapshot,
    /// None: the guest boots, leaves no snapshot, and its counts are not kept.
    Nothing,
}

impl BootOptions {
    /// Options as ordered.
    ///
    /// # Errors
    /// A file in place of the folder for logs.
    pub fn new(lab: &LabSpec, timeout: Duration) -> Result<Self, Error> {
        check_folder("--keep-logs", lab.keep_logs.as_deref())?;
        Ok(Self {
            reuse: match (lab.cold, lab.fresh) {
                (Wanted::Yes, _) => Reuse::Nothing,
                (Wanted::No, Wanted::Yes) => Reuse::Snapshot,
                (Wanted::No, Wanted::No) => Reuse::Counts,
            },
            // Kept counts are those of restored guests, so that an order has the same answer from either.
            keep_counts: match lab.cold {
                Wanted::Yes => Wanted::No,
                Wanted::No => Wanted::Yes,
            },
            timeout: lab.timeout.unwrap_or(timeout),
            keep_logs: lab.keep_logs.clone(),
        })
    }

    /// Options for an order of so many runs: repetitions are all run, and none is kept.
    pub fn for_runs(self, runs: u32) -> Self {
        match runs {
            0 | 1 => self,
            _ => self.without_counts(),
        }
    }

    /// Options under which a guest always runs, and its counts are not kept.
    pub fn without_counts(self) -> Self {
        let reuse = match self.reuse {
            Reuse::Counts | Reuse::Snapshot => Reuse::Snapshot,
            Reuse::Nothing => Reuse::Nothing,
        };
        Self {
            reuse,
            keep_counts: Wanted::No,
            ..self
        }
    }

    /// Options for reports that enter no figure: a guest gives them once, unless every guest boots.
    pub fn for_names(&self) -> Self {
        let reused = Self {
            reuse: Reuse::Counts,
            keep_counts: Wanted::Yes,
            ..self.clone()
        };
        match self.reuse {
            Reuse::Counts | Reuse::Snapshot => reused,
            Reuse::Nothing => self.clone(),
        }
    }

    /// Options with logs in a folder below.
    pub fn below(&self, folder: &str) -> Self {
        let keep_logs = self.keep_logs.as_ref().map(|logs| logs.join(folder));
        Self {
            keep_logs,
            ..self.clone()
        }
    }

    /// The folder for logs.
    pub fn logs(&self) -> Option<&Path> {
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
