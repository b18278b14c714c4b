//! Location of the cache, and whether pagetoll made that folder.
//!
//! A folder that pagetoll made holds a `CACHEDIR.TAG` (bford.info/cachedir) with a line of its own; backup programs
//! leave such folders out. Any other folder can be used as a cache too, but nothing is ever swept from it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use super::{LOCKS, LOGS, MANIFESTS, SWEEP_LOCK, TMP, disk, private, read_if_there, way};
use crate::error::Error;

/// The variable that names another folder than the user's cache folder.
pub const CACHE_VARIABLE: &str = "PAGETOLL_CACHE";

const TAG: &str = "CACHEDIR.TAG";
/// The first line is the specification's, the second marks the folder as pagetoll's.
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # Made by pagetoll, which can fetch or build everything in here again.\n";

/// Every folder that pagetoll has made in a cache: an older cache has these and no tag.
pub(super) const LAYOUT: [&str; 19] = [
    TMP,
    LOCKS,
    MANIFESTS,
    LOGS,
    "apt",
    "bisect",
    "counted",
    "counters",
    "fix",
    "guests",
    "headers",
    "packages",
    "snapshots",
    "sources",
    "suites",
    "unpacked",
    "verdicts",
    "vmlinux",
    "xen",
];

/// Creator of the cache's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// pagetoll: leftovers in it are ours to remove.
    Pagetoll,
    /// Someone else: only what this process made is removed.
    Other,
}

/// Present or future location of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The folder of the cache, which may not exist yet.
    pub root: PathBuf,
    /// The nearest existing folder: the cache itself or one above it.
    pub existing: PathBuf,
}

/// Finds the cache that [`super::Cache::open`] would open. Creates and removes nothing.
///
/// # Errors
/// As [`super::Cache::open`], as far as that can be seen without writing.
pub fn look() -> Result<Location, Error> {
    look_at(&default_root(|name| env::var_os(name))?)
}

pub(super) fn look_at(root: &Path) -> Result<Location, Error> {
    let root = way::resolve(root)?;
    check_path(&root)?;
    for folder in ["", TMP, LOCKS, MANIFESTS, LOGS] {
        private::open(&root, Path::new(folder))?;
    }
    let existing = root.ancestors().find(|folder| folder.is_dir());
    let existing = existing.unwrap_or(Path::new("/")).to_path_buf();
    require_writable(&existing)?;
    Ok(Location { root, existing })
}

/// Asks for the right to write, as far as it is known without writing: a read-only file system has none, root's neither.
pub(super) fn require_writable(folder: &Path) -> Result<(), Error> {
    rustix::fs::accessat(CWD, folder, Access::WRITE_OK, AtFlags::EACCESS)
        .map_err(|errno| Error::io("write", folder)(errno.into()))
}

pub(super) fn default_root(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let set = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set(CACHE_VARIABLE)
        .or_else(|| {
            set("XDG_CACHE_HOME")
                .filter(|path| path.is_absolute())
                .map(|path| path.join("pagetoll"))
        })
        .or_else(|| set("HOME").map(|home| home.join(".cache/pagetoll")))
        .ok_or_else(|| Error::Environment {
            what: "no folder for the cache: HOME is not set".into(),
            remedy: format!("set {CACHE_VARIABLE} to a writable folder"),
        })
}

/// kbuild splits paths at white space and at colons.
pub(super) fn check_path(root: &Path) -> Result<(), Error> {
    let text = root.to_string_lossy();
    if text.chars().any(|c| c.is_whitespace() || c == ':') {
        return Err(Error::bad_file(
            CACHE_VARIABLE,
            root,
            "contains white space or a colon, which kernel module builds cannot handle",
            "a path without them",
        ));
    }
    Ok(())
}

/// Finds out who made an existing folder. Tags it where it is empty, or has the layout of a cache and no tag yet.
pub(super) fn claim(root: &Path) -> Result<Maker, Error> {
    let tag = root.join(TAG);
    if let Some(text) = read_if_there(&tag)?.filter(|text| !text.is_empty()) {
        return Ok(match text.starts_with(TAG_TEXT.as_bytes()) {
            true => Maker::Pagetoll,
            false => Maker::Other,
        });
    }
    if !is_empty_or_untagged_cache(root)? {
        return Ok(Maker::Other);
    }
    disk::remove(&tag);
    disk::write(&tag, TAG_TEXT.as_bytes())?;
    Ok(Maker::Pagetoll)
}

/// An empty tag is what a process leaves that dies while it writes one. Every cache has had its sweep lock.
fn is_empty_or_untagged_cache(root: &Path) -> Result<bool, Error> {
    let entries: Result<Vec<_>, _> = fs::read_dir(root)
        .and_then(Iterator::collect)
        .map_err(Error::io("read", root));
    let beside_tag: Vec<_> = entries?
        .into_iter()
        .filter(|entry| entry.file_name() != TAG)
        .collect();
    let swept_before = || root.join(LOCKS).join(SWEEP_LOCK).is_file();
    let is_in_layout = |entry: &DirEntry| {
        let known = LAYOUT.iter().any(|name| entry.file_name() == *name);
        known && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    Ok(beside_tag.is_empty() || beside_tag.iter().all(is_in_layout) && swept_before())
}
