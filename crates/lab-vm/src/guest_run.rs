//! Results of a guest that came to its end: reports, and the files that they announce.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use pagetoll_host::Error;
use pagetoll_host::cache::read_if_there;
use pagetoll_protocol::report::{Blob, Report};

use crate::LabError;
use crate::counter::{self, Execution};
use crate::folder::{Folder, beginning_of};
use crate::machine::{COUNTS, SHARED};

/// The results of a guest.
#[derive(Debug)]
pub struct GuestRun {
    /// The name of its boot, for errors.
    pub boot: String,
    /// All reports but the last, `Done`.
    pub reports: Vec<Report>,
    /// The time of an earlier run, where the results are that run's.
    pub counted: Option<SystemTime>,
    /// The shared memory, as far as reports announce it.
    pub shared: PathBuf,
    /// The counts of the plugin.
    pub counts: PathBuf,
    /// The folder of these files, where the guest ran now.
    pub(crate) _folder: Option<Folder>,
}

impl GuestRun {
    /// The results of a guest that ran now, in its folder.
    pub(crate) fn new(boot: &str, reports: Vec<Report>, folder: Folder) -> Self {
        Self {
            boot: boot.to_owned(),
            reports,
            counted: None,
            shared: folder.path(SHARED),
            counts: folder.path(COUNTS),
            _folder: Some(folder),
        }
    }

    /// The bytes that a blob announced, checked.
    ///
    /// # Errors
    /// [`Error::Io`] when the shared memory cannot be read, or does not hold what was announced.
    pub fn blob(&self, blob: &Blob) -> Result<Vec<u8>, LabError> {
        let bytes = beginning_of(&self.shared, blob.bytes)?;
        let other = |problem| Error::io("read", &self.shared)(std::io::Error::other(problem));
        blob.check(&bytes).map_err(other)?;
        Ok(bytes)
    }

    /// The bytes of each blob by its name: what is announced holds those before it.
    ///
    /// # Errors
    /// The shared memory cannot be read, or does not hold what was announced.
    pub fn blobs(&self) -> Result<Vec<(&str, Vec<u8>)>, LabError> {
        let mut known = 0;
        let mut blobs = Vec::new();
        for blob in self.reports.iter().filter_map(Report::blob) {
            let bytes = self.blob(blob)?;
            let new = bytes.get(known..).unwrap_or_default().to_vec();
            known = bytes.len();
            blobs.push((blob.name.as_str(), new));
        }
        Ok(blobs)
    }

    /// Counts of the plugin by step; none where there was no plugin.
    ///
    /// # Errors
    /// [`Error::Io`] when their file cannot be read; [`LabError::Malformed`].
    pub fn executed(&self) -> Result<BTreeMap<u16, Execution>, LabError> {
        let text = read_if_there(&self.counts)?.unwrap_or_default();
        let executed = counter::parse(&String::from_utf8_lossy(&text));
        executed.map_err(|problem| self.malformed(problem))
    }

    /// The error of a report that contradicts the order or itself.
    pub fn malformed(&self, problem: impl Into<String>) -> LabError {
        LabError::Malformed {
            boot: self.boot.clone(),
            problem: problem.into(),
        }
    }
}
