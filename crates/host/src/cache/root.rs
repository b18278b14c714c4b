//! The folder of the cache, the way to it, and its maker.
//!
//! A folder that pagetoll made holds a `CACHEDIR.TAG` (bford.info/cachedir) with a line of its own; backup programs
//! leave such folders out. Any other folder can be used as a cache too, but nothing is ever swept from it.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode};
use rustix::io::Errno;

use super::private::{self, WRITABLE_BY_OTHERS, is_sudo_by};
use super::{LOCKS, LOGS, MANIFESTS, SWEEP_LOCK, TMP, disk, read_if_there};
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

/// The maker of the folder that is used as the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// pagetoll: leftovers in it are ours to remove.
    Pagetoll,
    /// Someone else: only what this process made is removed.
    Other,
}

/// The place of the cache, which may not exist yet.
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
    let root = resolve(root)?;
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
            what: "there is no folder for the cache: HOME is not set".into(),
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
    Ok(beside_tag.is_empty() || beside_tag.iter().all(is_in_layout) && swept_before())
}

fn is_in_layout(entry: &DirEntry) -> bool {
    let known = LAYOUT.iter().any(|name| entry.file_name() == *name);
    known && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Links of one way, as the kernel bounds them (`MAXSYMLINKS`, include/linux/namei.h).
const MOST_LINKS: usize = 40;

/// The absolute path of a folder without links, as far as it exists. The folder itself is not looked at.
pub(super) fn resolve(folder: &Path) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(folder).map_err(Error::io("open", folder))?;
    let (mut path, mut links) = (PathBuf::from("/"), 0);
    let mut rest: VecDeque<OsString> = names(&absolute).map(OsStr::to_owned).collect();
    while let Some(name) = rest.pop_front() {
        require_unshared(&path)?;
        let next = path.join(&name);
        let meta = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(rest.into_iter().fold(next, |path, name| path.join(name)));
            }
            meta => meta.map_err(Error::io("open", &next))?,
        };
        if meta.is_symlink() {
            require_trusted(&next, &meta)?;
            let target = fs::read_link(&next).map_err(Error::io("open", &next))?;
            links += 1;
            if links > MOST_LINKS {
                return Err(Error::io("open", next)(Errno::LOOP.into()));
            }
            if target.is_absolute() {
                path = "/".into();
            }
            for name in names(&target).rev() {
                rest.push_front(name.to_owned());
            }
        } else if name == ".." {
            path.pop();
        } else if meta.is_dir() {
            path = next;
        } else {
            return Err(Error::bad_file(
                CACHE_VARIABLE,
                &next,
                "is a file",
                "a folder",
            ));
        }
    }
    Ok(path)
}

/// The components that lead on from where a path begins.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    let components = path.components();
    let leads_on = |one: &Component<'_>| matches!(one, Component::Normal(_) | Component::ParentDir);
    components.filter(leads_on).map(Component::as_os_str)
}

/// Refuses a folder in which others could rename what is root's or the user's.
fn require_unshared(folder: &Path) -> Result<(), Error> {
    let meta = fs::metadata(folder).map_err(Error::io("open", folder))?;
    require_trusted(folder, &meta)?;
    let mode = Mode::from_raw_mode(meta.mode());
    if !mode.intersects(WRITABLE_BY_OTHERS) || mode.contains(Mode::SVTX) {
        return Ok(());
    }
    let folder = folder.display();
    Err(Error::Environment {
        what: format!(
            "{folder}, on the way to the cache, can be written by others, who could put another cache there"
        ),
        remedy: format!("chmod go-w {folder}, or set {CACHE_VARIABLE} to a folder elsewhere"),
    })
}

/// Refuses what belongs to neither root nor the user. Whoever owns `/` counts as root, which in a user namespace is not 0.
fn require_trusted(path: &Path, meta: &Metadata) -> Result<(), Error> {
    let root = fs::metadata("/").map_err(Error::io("open", "/"))?.uid();
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if [0, root, user].contains(&owner) {
        return Ok(());
    }
    Err(Error::Environment {
        what: format!(
            "{}, on the way to the cache, belongs to uid {owner}, who could put another cache there",
            path.display()
        ),
        remedy: match is_sudo_by(owner) {
            true => format!("run without sudo, or set {CACHE_VARIABLE} to a folder of root's"),
            false => format!("set {CACHE_VARIABLE} to a folder of your own"),
        },
    })
}
