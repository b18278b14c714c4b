//! The way to files that something is made from or started with: each is checked before it is handed out.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::fs::FlockOperation;

use super::manifest::{self, Difference, Manifest};
use super::{MANIFESTS, disk, flat, folder_of, private, record_of, sealed};
use crate::error::Error;

/// A file or folder: an entry of the cache, or the user's own.
///
/// What it hands out of the cache is as it was when the entry was made: kind, owner's mode, size and SHA-256, compared
/// once for each process. The user's own files are handed out as they are.
#[derive(Clone)]
pub struct Entry {
    path: PathBuf,
    record: Option<Arc<Record>>,
}

/// An entry that this process has opened. No other process cleans it away while this exists.
struct Record {
    name: String,
    /// The entry, of which [`Entry::path`] may be a part.
    place: PathBuf,
    manifest: Manifest,
    manifest_path: PathBuf,
    checked: Mutex<Comparison>,
    /// The open manifest, with a shared lock on it.
    in_use: File,
}

/// Parts of an entry that were compared with its manifest.
#[derive(Default)]
struct Comparison {
    whole: bool,
    files: BTreeSet<PathBuf>,
}

impl Entry {
    /// A file or folder of the user's, which has no record to compare it with.
    #[must_use]
    pub fn from_user(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            record: None,
        }
    }

    /// The entry of this name in the cache at `root`, to be used; `None` where there is none that was finished.
    pub(super) fn open(root: &Path, name: &str) -> Result<Option<Self>, Error> {
        let entry = Self::open_unused(root, name)?;
        // Without the lock the entry is being cleaned away.
        let lock = |entry: &Self| {
            entry
                .record
                .as_ref()
                .is_some_and(|record| record.lock_shared())
        };
        Ok(entry.filter(lock))
    }

    /// Opens an entry to inspect it, without a change of its time of use.
    pub(super) fn open_unused(root: &Path, name: &str) -> Result<Option<Self>, Error> {
        let place = root.join(name);
        let folder = private::open(root, folder_of(name))?;
        let records = private::open(root, Path::new(MANIFESTS))?;
        let (Some(_), Some(records), true) = (folder, records, place.symlink_metadata().is_ok())
        else {
            return Ok(None);
        };
        let manifest_path = record_of(root, name);
        let Some((in_use, text)) = sealed::read(&records, flat(name).as_ref(), &manifest_path)?
        else {
            return Ok(None);
        };
        let Ok(manifest) = serde_json::from_slice(&text) else {
            return Ok(None);
        };
        Ok(Some(Self {
            path: place.clone(),
            record: Some(Arc::new(Record {
                name: name.to_owned(),
                place,
                manifest,
                manifest_path,
                checked: Mutex::default(),
                in_use,
            })),
        }))
    }

    /// Path for messages and for looking up names. [`Entry::file`] and [`Entry::whole`] are the ways to the content.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True for a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// A part of it.
    #[must_use]
    pub fn below(&self, folder: impl AsRef<Path>) -> Self {
        Self {
            path: manifest::place_of(&self.path, folder.as_ref()),
            record: self.record.clone(),
        }
    }

    /// A plain file of it, by its path below it or by its whole path, unchanged since the entry was made. A file
    /// that does not exist and never did is not an error here.
    ///
    /// # Errors
    /// [`Error::Altered`] when it is not as it was made, and the entry is not used again; [`Error::Io`].
    pub fn file(&self, below: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = manifest::place_of(&self.path, below.as_ref());
        let Some(record) = &self.record else {
            return Ok(path);
        };
        let below = path.strip_prefix(&record.place).ok();
        let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
        let Some(below) = below.filter(|below| below.components().all(is_name)) else {
            return Err(Error::io("read", &path)(io::Error::other(
                "is not part of this entry",
            )));
        };
        let mut checked = record.checked();
        if !checked.whole && !checked.files.contains(below) {
            record.refuse(record.manifest.difference_of(&record.place, below)?)?;
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
        if let Some(record) = &self.record {
            let mut checked = record.checked();
            if !checked.whole {
                record.refuse(record.manifest.difference(&record.place)?)?;
                checked.whole = true;
            }
        }
        Ok(&self.path)
    }

    /// First difference between the entry and its manifest.
    pub(super) fn difference(&self) -> Result<Option<Difference>, Error> {
        let record = self.record.as_ref();
        record.map_or(Ok(None), |record| record.manifest.difference(&record.place))
    }

    /// Path of a file of the entry, by its path below it.
    pub(super) fn place_of(&self, below: &Path) -> PathBuf {
        manifest::place_of(&self.path, below)
    }

    /// Marks the entry as compared: this process has just made and read all of it.
    pub(super) fn just_made(self) -> Self {
        if let Some(record) = &self.record {
            record.checked().whole = true;
        }
        self
    }
}

impl Record {
    /// Takes the lock that keeps the entry from being cleaned away, unless that happens now, and notes the use.
    fn lock_shared(&self) -> bool {
        let locked = rustix::fs::flock(&self.in_use, FlockOperation::NonBlockingLockShared);
        let linked = rustix::fs::fstat(&self.in_use).is_ok_and(|stat| stat.st_nlink > 0);
        // A time that cannot be set makes the entry look older: cleaning it costs time, nothing else.
        let _unset = self.in_use.set_modified(SystemTime::now());
        locked.is_ok() && linked
    }

    fn checked(&self) -> MutexGuard<'_, Comparison> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the manifest of an entry that differs: it no longer counts as an entry, and is made again.
    fn refuse(&self, difference: Option<Difference>) -> Result<(), Error> {
        let Some(difference) = difference else {
            return Ok(());
        };
        disk::remove(&self.manifest_path);
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
