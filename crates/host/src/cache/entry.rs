//! The way to files that something is made from or started with: each is checked before it is handed out.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use std::{fmt, io};

use rustix::fs::FlockOperation;

use super::manifest::{self, Difference, Manifest};
use super::{MANIFESTS, disk, flat, folder_of, private, record_of};
use crate::error::Error;

/// A file or folder: an entry of the cache, or the user's own.
///
/// What it hands out of the cache is as it was when the entry was made: kind, owner's mode, size and SHA-256, compared
/// once for each process. The user's own files are handed out as they are.
#[derive(Clone)]
pub struct Entry {
    path: PathBuf,
    kept: Option<Arc<CacheEntry>>,
}

/// An entry that this process has opened. No other process cleans it away while this exists.
struct CacheEntry {
    name: String,
    /// The entry, of which [`Entry::path`] may be a part.
    place: PathBuf,
    manifest: Manifest,
    record: PathBuf,
    checked: Mutex<Comparisons>,
    /// Its manifest, locked, shared, while it is used.
    in_use: File,
}

/// Files that have been compared.
#[derive(Default)]
struct Comparisons {
    whole: bool,
    files: BTreeSet<PathBuf>,
}

impl Entry {
    /// A file or folder of the user's, which has no record to compare it with.
    #[must_use]
    pub fn from_user(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            kept: None,
        }
    }

    /// The entry of this name in the cache at `root`, to be used; `None` where there is none that was finished.
    pub(super) fn open(root: &Path, name: &str) -> Result<Option<Self>, Error> {
        let entry = Self::open_unused(root, name)?;
        let lock = |entry: &Self| entry.kept.as_ref().is_some_and(|kept| kept.lock_shared());
        Ok(entry.filter(lock))
    }

    /// Opens an entry to be looked at, which leaves its time of use.
    pub(super) fn open_unused(root: &Path, name: &str) -> Result<Option<Self>, Error> {
        let place = root.join(name);
        let folder = private::open(root, folder_of(name))?;
        let records = private::open(root, Path::new(MANIFESTS))?;
        let (Some(_), Some(records), true) = (folder, records, place.symlink_metadata().is_ok())
        else {
            return Ok(None);
        };
        let record = record_of(root, name);
        let Some((in_use, text)) = disk::read_sealed(&records, flat(name).as_ref(), &record)?
        else {
            return Ok(None);
        };
        let Ok(manifest) = serde_json::from_slice(&text) else {
            return Ok(None);
        };
        Ok(Some(Self {
            path: place.clone(),
            kept: Some(Arc::new(CacheEntry {
                name: name.to_owned(),
                place,
                manifest,
                record,
                checked: Mutex::default(),
                in_use,
            })),
        }))
    }

    /// Its path, for messages, and to look for names; [`Entry::file`] and [`Entry::whole`] are the ways to its content.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether this is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// A part of it.
    #[must_use]
    pub fn below(&self, folder: impl AsRef<Path>) -> Self {
        Self {
            path: manifest::place_of(&self.path, folder.as_ref()),
            kept: self.kept.clone(),
        }
    }

    /// A plain file of it, by its path below it or by its whole path, unchanged since the entry was made. That there is no
    /// such file, and never was one, is left to the reader to find out.
    ///
    /// # Errors
    /// [`Error::Altered`] when it is not as it was made, and the entry is not used again; [`Error::Io`].
    pub fn file(&self, below: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = manifest::place_of(&self.path, below.as_ref());
        let Some(kept) = &self.kept else {
            return Ok(path);
        };
        let below = path.strip_prefix(&kept.place).ok();
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        let Some(below) = below.filter(|below| below.components().all(is_name)) else {
            return Err(Error::io("read", &path)(io::Error::other(
                "is not of this entry",
            )));
        };
        let mut checked = kept.checked();
        if !checked.whole && !checked.files.contains(below) {
            kept.refuse(kept.manifest.difference_of(&kept.place, below)?)?;
            checked.files.insert(below.to_path_buf());
        }
        Ok(path)
    }

    /// The text of such a file; `None` where there is none.
    ///
    /// # Errors
    /// As [`Entry::file`].
    pub fn text(&self, below: impl AsRef<Path>) -> Result<Option<String>, Error> {
        let path = self.file(below)?;
        let text = super::read_if_there(&path)?
            .map(String::from_utf8)
            .transpose();
        text.map_err(|error| Error::io("read", path)(io::Error::other(error)))
    }

    /// All of it, unchanged since the entry was made.
    ///
    /// # Errors
    /// As [`Entry::file`].
    pub fn whole(&self) -> Result<&Path, Error> {
        if let Some(kept) = &self.kept {
            let mut checked = kept.checked();
            if !checked.whole {
                kept.refuse(kept.manifest.difference(&kept.place)?)?;
                checked.whole = true;
            }
        }
        Ok(&self.path)
    }

    /// Its difference from its manifest.
    pub(super) fn difference(&self) -> Result<Option<Difference>, Error> {
        let kept = self.kept.as_ref();
        kept.map_or(Ok(None), |kept| kept.manifest.difference(&kept.place))
    }

    /// The place of one of its files, by the path below it.
    pub(super) fn place_of(&self, below: &Path) -> PathBuf {
        manifest::place_of(&self.path, below)
    }

    /// This process has just made and read all of it.
    pub(super) fn just_made(self) -> Self {
        if let Some(kept) = &self.kept {
            kept.checked().whole = true;
        }
        self
    }
}

impl CacheEntry {
    /// Takes the lock that keeps the entry from being cleaned away, unless that happens now, and notes the use.
    fn lock_shared(&self) -> bool {
        let locked = rustix::fs::flock(&self.in_use, FlockOperation::NonBlockingLockShared);
        let linked = rustix::fs::fstat(&self.in_use).is_ok_and(|stat| stat.st_nlink > 0);
        // A time that cannot be set makes the entry look older: cleaning it costs time, nothing else.
        let _unset = self.in_use.set_modified(SystemTime::now());
        locked.is_ok() && linked
    }

    fn checked(&self) -> MutexGuard<'_, Comparisons> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An entry that differs loses its record, and with it its place among the entries: it is made anew.
    fn refuse(&self, difference: Option<Difference>) -> Result<(), Error> {
        let Some(difference) = difference else {
            return Ok(());
        };
        disk::remove(&self.record);
        Err(Error::Altered {
            entry: self.name.clone(),
            file: manifest::place_of(&self.place, &difference.file),
            how: difference.how,
        })
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}
