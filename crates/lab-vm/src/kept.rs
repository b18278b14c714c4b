//! Reports of counting guests, kept in the cache: a guest that is the same and has the same order counts the same.
//!
//! The name of an entry is the digest of all that its counts follow from: what a snapshot follows from, the order, and the
//! counter. Runs whose logs are kept are not kept themselves, nor are races that prove nothing.

use std::fs;
use std::path::Path;

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::spec::Wanted;
use pagetoll_host::cache::{self, Cache, Entry};
use pagetoll_host::{Error, digest};
use pagetoll_protocol::report::{Race, Report};

use crate::counter::{self, Counter};
use crate::folder::{Folder, beginning_of};
use crate::guest_run::GuestRun;
use crate::machine::{COUNTS, Mode, SHARED};
use crate::options::{Boot, Reuse};

const KIND: &str = "counted";
/// A report a line.
const REPORTS: &str = "reports";
/// Together they take no more of the disk than this, as those that were used last. The default bill's take 6 MB, of which
/// 5 MB is Xen's trace.
const MOST_BYTES: u64 = 1 << 30;

/// The entry of a boot's reports in the cache, by the key of its snapshot; none where reports are not kept.
///
/// # Errors
/// The counter cannot be read.
pub(crate) fn entry(boot: Boot<'_>, key: &str) -> Result<Option<String>, Error> {
    let has_logs = boot.options.logs().is_some();
    let is_kept = boot.options.keep_counts == Wanted::Yes && !has_logs;
    if !is_kept {
        return Ok(None);
    }
    let counter = boot.counter.map(Counter::digest).transpose()?;
    let follows_from = [
        key.to_owned(),
        digest::sha256_of(boot.delivery.unwrap_or_default()),
        counter.unwrap_or_default(),
    ];
    let key = digest::sha256_of(follows_from.join("\n").as_bytes());
    Ok(Some(format!("{KIND}/{key}")))
}

/// The run that was kept in an entry; none where it is missing, is not as it was written, or is to be counted again.
///
/// # Errors
/// Those of the cache.
pub(crate) fn find(boot: Boot<'_>, name: &str, cache: &Cache) -> Result<Option<GuestRun>, Error> {
    let entry = match boot.options.reuse {
        Reuse::Counts => cache.known(name)?,
        Reuse::Snapshot | Reuse::Nothing => None,
    };
    match entry {
        Some(entry) => cache::unaltered(read(boot, &entry)).map(Option::flatten),
        None => Ok(None),
    }
}

/// Nothing where a report is of another version of pagetoll.
fn read(boot: Boot<'_>, entry: &Entry) -> Result<Option<GuestRun>, Error> {
    let reports = entry.file(REPORTS)?;
    let meta = fs::metadata(&reports).map_err(Error::io("read", &reports))?;
    let text = fs::read_to_string(&reports).map_err(Error::io("read", &reports))?;
    let parsed: Result<_, _> = text.lines().map(str::parse).collect();
    let Ok(parsed) = parsed else {
        return Ok(None);
    };
    Ok(Some(GuestRun {
        boot: boot.name.to_owned(),
        reports: parsed,
        counted: Some(meta.modified().map_err(Error::io("read", &reports))?),
        shared: entry.file(SHARED)?,
        counts: entry.file(COUNTS)?,
        _folder: None,
    }))
}

/// Whether reports of guests in this mode say the same the next time: counts do, and races in which the negative controls
/// lost bits of both kinds. Times of several vCPUs mean nothing here.
fn are_conclusive(mode: Mode, reports: &[Report]) -> bool {
    let is_control = |race: &&Race| !race.mechanism.properties().smp_safe;
    let controls = || reports.iter().filter_map(Report::race).filter(is_control);
    match mode {
        Mode::Counting => true,
        Mode::Race { .. } => {
            controls().any(|race| race.faults.lost_dirty > 0)
                && controls().any(|race| race.faults.lost_accessed > 0)
        }
    }
}

/// Keeps reports, and the files that they announce, unless they are kept already.
///
/// # Errors
/// [`Error::Io`] or [`Error::NoSpace`].
pub(crate) fn keep(
    boot: Boot<'_>,
    name: &str,
    lines: &[String],
    reports: &[Report],
    folder: &Folder,
    cache: &Cache,
) -> Result<(), Error> {
    if !are_conclusive(boot.machine.mode, reports) || cache.known(name)?.is_some() {
        return Ok(());
    }
    let scratch = cache.scratch();
    let place = scratch.create_dir()?;
    write(&place.join(REPORTS), lines.join("\n").as_bytes())?;
    let blobs = reports.iter().filter_map(Report::blob);
    let used = blobs.map(|blob| blob.bytes).max().unwrap_or(0);
    let counts = beginning_of(&folder.path(COUNTS), u64::MAX)?;
    if !counter::is_whole(&counts) {
        return Ok(());
    }
    write(&place.join(COUNTS), &counts)?;
    write(
        &place.join(SHARED),
        &beginning_of(&folder.path(SHARED), used)?,
    )?;
    cache.publish(place, name)?;
    cache.trim(KIND, MOST_BYTES)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::io("write", path))
}
