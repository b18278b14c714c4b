//! Contents of a cache: listed, compared with their manifests, and removed where nothing uses them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use super::manifest::Difference;
use super::{Cache, Entry, LAYOUT, LOCKS, Lock, MANIFESTS, TMP, disk, flat, private, record_of};
use crate::error::Error;

/// An item with a name of its own in a cache: an entry, a record, a log, apt's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The folder that things of its kind are in, such as `xen`.
    pub kind: String,
    /// Its path below the root.
    pub name: String,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was used last; where it has no manifest, when it was written.
    pub used: SystemTime,
    /// True where it has a manifest, without which an entry is made again.
    pub recorded: bool,
}

/// Conditions of a cleaning, all of which hold for each item that it removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Not used for this long.
    pub unused_for: Duration,
    /// The kind of item; `None` is any.
    pub kind: Option<String>,
}

/// Items that a cleaning removes or has removed, and those that it leaves because a process uses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// No longer there.
    pub removed: Vec<Item>,
    /// Still there.
    pub in_use: Vec<Item>,
}

/// The comparison of an entry with its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It is as it was made.
    Same,
    /// Not as it was made: the file, and how it differs.
    Differs(PathBuf, &'static str),
    /// It has no manifest.
    Unrecorded,
}

/// The names of all kinds.
#[must_use]
pub fn kinds() -> Vec<&'static str> {
    let own = [TMP, LOCKS, MANIFESTS];
    LAYOUT
        .into_iter()
        .filter(|kind| !own.contains(kind))
        .collect()
}

/// Lists what is in the cache at this root, by kind and name. Changes nothing; a root that is not there is empty.
///
/// # Errors
/// [`Error::Environment`] when others own the root or can write to it; [`Error::Io`].
pub fn list(root: &Path) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for kind in kinds() {
        for name in names(root, kind)? {
            items.push(Item::new(root, kind, name)?);
        }
    }
    Ok(items)
}

/// Things of the kind `fix` are one folder deeper: sources, kernels, work.
fn names(root: &Path, kind: &str) -> Result<Vec<String>, Error> {
    let children = children(root, kind)?;
    if kind != "fix" {
        return Ok(children);
    }
    let deeper: Result<Vec<_>, _> = children
        .iter()
        .map(|name| self::children(root, name))
        .collect();
    Ok(deeper?.concat())
}

fn children(root: &Path, folder: &str) -> Result<Vec<String>, Error> {
    if private::open(root, Path::new(folder))?.is_none() {
        return Ok(Vec::new());
    }
    let path = root.join(folder);
    let mut names = Vec::new();
    for child in fs::read_dir(&path).map_err(Error::io("read", &path))? {
        let child = child.map_err(Error::io("read", &path))?.file_name();
        names.push(format!("{folder}/{}", child.to_string_lossy()));
    }
    names.sort_unstable();
    Ok(names)
}

impl Item {
    fn new(root: &Path, kind: &str, name: String) -> Result<Self, Error> {
        let path = root.join(&name);
        let record = fs::symlink_metadata(record_of(root, &name));
        let own = fs::symlink_metadata(&path).map_err(Error::io("read", &path))?;
        let written = record.as_ref().unwrap_or(&own).modified();
        Ok(Self {
            kind: kind.to_owned(),
            bytes: size(&path).map_err(Error::io("read", &path))?,
            used: written.map_err(Error::io("read", &path))?,
            recorded: record.is_ok(),
            name,
        })
    }

    fn is_meant_by(&self, cleaning: &Cleaning) -> bool {
        let unused_for = self.used.elapsed().unwrap_or_default();
        let of_kind = cleaning.kind.as_ref().is_none_or(|kind| *kind == self.kind);
        of_kind && unused_for >= cleaning.unused_for
    }
}

/// A file that vanishes meanwhile has no size.
fn size(path: &Path) -> std::io::Result<u64> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        meta => meta?,
    };
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    fs::read_dir(path)?.map(|child| size(&child?.path())).sum()
}

/// Compares an entry with its manifest, file by file. Changes nothing.
///
/// # Errors
/// [`Error::Io`] when it cannot be read.
pub fn verify(root: &Path, item: &Item) -> Result<Verified, Error> {
    let verified = compare(root, item)?;
    // Another process removes the record of an entry before its files.
    let is_recorded = record_of(root, &item.name).exists();
    Ok(match verified {
        Verified::Differs(..) if !is_recorded => Verified::Unrecorded,
        verified => verified,
    })
}

fn compare(root: &Path, item: &Item) -> Result<Verified, Error> {
    let Some(entry) = Entry::open_unused(root, &item.name)? else {
        return Ok(match item.recorded {
            true => Verified::Differs(record_of(root, &item.name), "is damaged"),
            false => Verified::Unrecorded,
        });
    };
    Ok(match entry.difference()? {
        None => Verified::Same,
        Some(Difference { file, how }) => Verified::Differs(entry.place_of(&file), how),
    })
}

impl Cache {
    /// Items that a cleaning would remove, and those that it would leave.
    ///
    /// # Errors
    /// Those of [`list`].
    pub fn cleanable(&self, cleaning: &Cleaning) -> Result<Cleaned, Error> {
        self.sort_out(cleaning, |_| ())
    }

    /// Removes what is meant and not used by any process. An entry loses its manifest first.
    ///
    /// # Errors
    /// Those of [`list`].
    pub fn clean(&self, cleaning: &Cleaning) -> Result<Cleaned, Error> {
        self.sort_out(cleaning, |item| self.remove(&item.name))
    }

    /// Removes entries of a kind, those that were used longest ago first, until what is left takes at most so many bytes.
    /// What a process uses stays.
    ///
    /// # Errors
    /// Those of [`list`].
    pub fn trim(&self, kind: &str, most: u64) -> Result<(), Error> {
        let mut items = list(&self.root)?;
        items.retain(|item| item.kind == kind);
        items.sort_by_key(|item| item.used);
        let mut left: u64 = items.iter().map(|item| item.bytes).sum();
        for item in items {
            if left <= most {
                break;
            }
            if let Some(_locks) = self.lock_unused(&item.name)? {
                self.remove(&item.name);
                left -= item.bytes;
            }
        }
        Ok(())
    }

    fn sort_out(&self, cleaning: &Cleaning, act: impl Fn(&Item)) -> Result<Cleaned, Error> {
        let mut cleaned = Cleaned::default();
        let meant = list(&self.root)?.into_iter();
        for item in meant.filter(|item| item.is_meant_by(cleaning)) {
            match self.lock_unused(&item.name)? {
                Some(_locks) => {
                    act(&item);
                    cleaned.removed.push(item);
                }
                None => cleaned.in_use.push(item),
            }
        }
        Ok(cleaned)
    }

    /// The locks of making an entry and of using it; `None` while a process holds one of them.
    fn lock_unused(&self, name: &str) -> Result<Option<Vec<Lock>>, Error> {
        let making = Lock::attempt(&self.root.join(LOCKS), &flat(name))?;
        let Some(making) = making else {
            return Ok(None);
        };
        let Ok(file) = fs::File::open(record_of(&self.root, name)) else {
            return Ok(Some(vec![making]));
        };
        let using = Lock::attempt_on(file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(using.map(|using| vec![making, using]))
    }

    fn remove(&self, name: &str) {
        disk::remove(&record_of(&self.root, name));
        disk::remove(&self.path(name));
    }
}
