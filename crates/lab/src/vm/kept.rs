//! What counting guests have reported, kept in the cache: a guest that is the same and has the same order counts the same.
//!
//! It bears the digest of all that the counts follow from: what a snapshot follows from, the order, and the counter. What
//! races is never kept, and neither is what comes with logs that were asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pagetoll_host::cache::{self, Cache, Entry};
use pagetoll_host::{Error, digest};
use pagetoll_protocol::report::Report;

use crate::vm::boot::Boot;
use crate::vm::counter::Counter;
use crate::vm::delivery::Delivery;
use crate::vm::folder::{Folder, beginning_of};
use crate::vm::machine::{COUNTS, Mode, SHARED};
use crate::vm::options::{BootOptions, Counts};

const KIND: &str = "counted";
/// A report a line.
const REPORTS: &str = "reports";
/// Together they take no more of the disk than this, as those that were used last. The default bill's take 6 MB, of which
/// 5 MB is Xen's trace.
const MOST_BYTES: u64 = 1 << 30;

/// The place of what a boot reports.
pub(crate) struct Kept<'a> {
    cache: &'a Cache,
    name: String,
}

/// What was reported, and when.
pub(crate) struct Found {
    pub(crate) reports: Vec<Report>,
    pub(crate) counted: SystemTime,
    /// The device's memory, as far as it was reported.
    pub(crate) shared: PathBuf,
    pub(crate) counts: PathBuf,
}

impl<'a> Kept<'a> {
    /// The place of what this boot, whose snapshot would have this key, reports; none of one whose reports are not kept.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub(crate) fn of(boot: Boot<'_>, key: &str, cache: &'a Cache) -> Result<Option<Self>, Error> {
        let BootOptions { counts, .. } = boot.options;
        let has_logs = boot.options.logs().is_some();
        if boot.machine.mode != Mode::Counting || *counts == Counts::Apart || has_logs {
            return Ok(None);
        }
        let delivery = boot.guest.delivery.as_ref().map(Delivery::bytes);
        let counter = boot.counter.map(Counter::digest).transpose()?;
        let follows_from = [
            key.to_owned(),
            digest::sha256_of(&delivery.unwrap_or_default()),
            counter.unwrap_or_default(),
        ];
        let key = digest::sha256_of(follows_from.join("\n").as_bytes());
        let name = format!("{KIND}/{key}");
        Ok(Some(Self { cache, name }))
    }

    /// What was reported before, unless it is to be counted anew.
    ///
    /// # Errors
    /// Those of the cache.
    pub(crate) fn found(&self, counts: Counts) -> Result<Option<Found>, Error> {
        let entry = match counts {
            Counts::Kept => self.cache.known(&self.name)?,
            Counts::Anew | Counts::Apart => None,
        };
        match entry {
            Some(entry) => cache::unaltered(Found::read(&entry)).map(Option::flatten),
            None => Ok(None),
        }
    }

    /// Keeps what was reported, unless it is kept already.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn keep(
        &self,
        lines: &[String],
        reports: &[Report],
        folder: &Folder,
    ) -> Result<(), Error> {
        if self.cache.known(&self.name)?.is_some() {
            return Ok(());
        }
        let scratch = self.cache.scratch();
        let place = scratch.create_dir()?;
        write(&place.join(REPORTS), lines.join("\n").as_bytes())?;
        let blobs = reports.iter().filter_map(Report::blob);
        let used = blobs.map(|blob| blob.bytes).max().unwrap_or(0);
        for (name, most) in [(SHARED, used), (COUNTS, u64::MAX)] {
            write(&place.join(name), &beginning_of(&folder.path(name), most)?)?;
        }
        self.cache.publish(place, &self.name)?;
        self.cache.trim(KIND, MOST_BYTES)
    }
}

impl Found {
    /// Nothing where a report is of another version of pagetoll.
    fn read(entry: &Entry) -> Result<Option<Self>, Error> {
        let reports = entry.file(REPORTS)?;
        let meta = fs::metadata(&reports).map_err(Error::io("read", &reports))?;
        let text = fs::read_to_string(&reports).map_err(Error::io("read", &reports))?;
        let parsed: Result<_, _> = text.lines().map(serde_json::from_str).collect();
        let Ok(parsed) = parsed else {
            return Ok(None);
        };
        Ok(Some(Self {
            reports: parsed,
            counted: meta.modified().map_err(Error::io("read", &reports))?,
            shared: entry.file(SHARED)?,
            counts: entry.file(COUNTS)?,
        }))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::io("write", path))
}
