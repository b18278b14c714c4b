//! The folder where fetched and unpacked images are kept between runs.
//!
//! Everything in it can be fetched again. An entry appears by a rename, complete and on the disk or not at all, beside a
//! manifest of what it holds, which it is compared with when it is used; without one it is made anew. What is half made
//! lives in a run folder of the process below `tmp/`, with a file that the process holds locked, so that a later process
//! knows leftovers from work in progress. Several processes may share one cache, all of one user: a folder that
//! another could have written is refused. Only [`Cache::clean`] deletes entries, and nothing deletes what pagetoll did not
//! make.

mod disk;
mod entry;
pub mod inventory;
mod lock;
mod manifest;
mod private;
mod root;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, io};

use pagetoll_backend::Stop;

use crate::error::Error;

pub use entry::Entry;
pub use lock::Lock;
use manifest::Manifest;
pub use root::{CACHE_VARIABLE, Location, look};
use root::{LAYOUT, Maker};

const TMP: &str = "tmp";
const LOCKS: &str = "locks";
/// Manifests, one file for each entry.
const MANIFESTS: &str = "manifests";
/// Output of builds and guests.
const LOGS: &str = "logs";
/// Held while leftovers are swept and a run's folder is made.
const SWEEP_LOCK: &str = "sweep";
/// Run folders below [`TMP`] begin with this.
const RUN_PREFIX: &str = "run-";
/// The file in a run's folder that its process holds locked.
const ALIVE: &str = "alive";

/// An opened cache. Dropping it removes what this process left half made.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    run: PathBuf,
    _alive: Lock,
    next: AtomicU64,
    opened: Mutex<BTreeMap<String, Entry>>,
}

impl Cache {
    /// Opens `$PAGETOLL_CACHE`, else `pagetoll` below `$XDG_CACHE_HOME`, else below `~/.cache`.
    ///
    /// # Errors
    /// [`Error::Environment`] when none of these is set; those of [`Cache::open_at`].
    pub fn open(stop: &Stop) -> Result<Self, Error> {
        Self::open_at(&root::default_root(|name| env::var_os(name))?, stop)
    }

    /// Opens the cache at this folder and creates it where needed. Removes leftovers of killed processes, but only
    /// from a folder that pagetoll made.
    ///
    /// # Errors
    /// [`Error::BadInput`] when the path has white space or a colon, which kbuild cannot handle;
    /// [`Error::Environment`] when another user owns the folder, can write to it or could put another in its place, or its
    /// file system is read-only; [`Error::Io`] or [`Error::NoSpace`] when it cannot be written.
    pub fn open_at(root: &Path, stop: &Stop) -> Result<Self, Error> {
        let root = root::resolve(root)?;
        root::check_path(&root)?;
        private::create_root(&root)?;
        // What was missing in a folder that others write to could be theirs by now.
        let root = root::resolve(&root)?;
        private::open(&root, Path::new(""))?;
        root::require_writable(&root)?;
        let maker = root::claim(&root)?;
        for folder in [TMP, LOCKS, MANIFESTS, LOGS] {
            private::create(&root, Path::new(folder))?;
        }
        let [tmp, locks] = [TMP, LOCKS].map(|folder| root.join(folder));
        let _sweeping = Lock::wait(&locks, SWEEP_LOCK, stop)?;
        if maker == Maker::Pagetoll {
            remove_leftovers(&tmp);
        }
        let run = tempfile::Builder::new()
            .prefix(RUN_PREFIX)
            .tempdir_in(&tmp)
            .map_err(Error::io("write", &tmp))?;
        private::close_to_others(run.path())?;
        let alive = Lock::wait(run.path(), ALIVE, stop)?;
        Ok(Self {
            root,
            run: run.keep(),
            _alive: alive,
            next: AtomicU64::new(0),
            opened: Mutex::default(),
        })
    }

    /// The folder that the cache lives in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of an entry, whether or not it exists.
    #[must_use]
    pub fn path(&self, entry: &str) -> PathBuf {
        self.root.join(entry)
    }

    /// A path for work in progress, of this process alone, removed unless it is renamed.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Scratch {
            path: self.run.join(number.to_string()),
        }
    }

    /// The entry of this name (a path below the root), made by `make` unless it exists as it was made.
    ///
    /// `make` gets a path where it shall create a file or folder. Of processes that want the same entry at the same
    /// time one makes it, and the others wait. An entry that is a file has been compared with its record; of a folder,
    /// [`Entry`] compares what it hands out.
    ///
    /// # Errors
    /// Those of `make`; [`Error::Stopped`]; [`Error::Io`] or [`Error::NoSpace`].
    pub fn entry(
        &self,
        name: &str,
        stop: &Stop,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Entry, Error> {
        if let Some(entry) = self.intact(name)? {
            return Ok(entry);
        }
        let _making = self.lock(name, stop)?;
        if let Some(entry) = self.intact(name)? {
            return Ok(entry);
        }
        let scratch = self.scratch();
        make(scratch.path()).map_err(|error| error.or_no_space("fill", &self.root))?;
        self.publish(scratch.path(), name)
    }

    fn intact(&self, name: &str) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.known(name)? else {
            return Ok(None);
        };
        if entry.is_folder() {
            return Ok(Some(entry));
        }
        let whole = unaltered(entry.whole().map(drop))?;
        if whole.is_none() {
            self.opened().remove(name);
        }
        Ok(whole.map(|()| entry))
    }

    /// The entry of this name, where it is there.
    ///
    /// # Errors
    /// [`Error::Environment`] when others can write to its folder; [`Error::Io`].
    pub fn known(&self, name: &str) -> Result<Option<Entry>, Error> {
        if let Some(entry) = self.opened().get(name) {
            return Ok(Some(entry.clone()));
        }
        let entry = Entry::open(&self.root, name)?;
        if let Some(entry) = &entry {
            self.opened().insert(name.to_owned(), entry.clone());
        }
        Ok(entry)
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an entry of a file or folder that this process has made below a [`Scratch`]: on the disk before it has
    /// the name. What bears that name and is no entry, or is no longer as it was made, goes.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn publish(&self, made: &Path, name: &str) -> Result<Entry, Error> {
        let (place, record) = (self.path(name), record_of(&self.root, name));
        private::create(&self.root, folder_of(name))?;
        let (manifest, old) = (self.scratch(), self.scratch());
        let holds = Manifest::read(made)?;
        let json = serde_json::to_vec(&holds)
            .map_err(|error| Error::io("record", MANIFESTS)(error.into()))?;
        disk::write(manifest.path(), &disk::seal(&json))?;
        match holds.is_folder() {
            // File by file would take longer.
            true => disk::sync_all(&self.run)?,
            false => disk::sync(made)?,
        }
        self.opened().remove(name);
        disk::remove(&record);
        if place.symlink_metadata().is_ok() {
            disk::rename(&place, old.path())?;
        }
        disk::rename(made, &place)?;
        disk::rename(manifest.path(), &record)?;
        for folder in [place.parent(), record.parent()].into_iter().flatten() {
            disk::sync(folder)?;
        }
        let entry = self.known(name)?.map(Entry::just_made);
        entry.ok_or_else(|| Error::io("open", place)(io::ErrorKind::NotFound.into()))
    }

    /// Keeps a small text, over an older one of that name.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn record(&self, name: &str, text: &[u8]) -> Result<(), Error> {
        let (place, scratch) = (self.path(name), self.scratch());
        private::create(&self.root, folder_of(name))?;
        disk::write(scratch.path(), &disk::seal(text))?;
        disk::rename(scratch.path(), &place)?;
        place.parent().map_or(Ok(()), disk::sync)
    }

    /// A text that was kept; `None` where there is none, or it is not as it was written.
    ///
    /// # Errors
    /// [`Error::Environment`] when others can write to its folder; [`Error::Io`].
    pub fn recorded(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(folder) = private::open(&self.root, folder_of(name))? else {
            return Ok(None);
        };
        let file = Path::new(name).file_name().unwrap_or_default();
        let text = disk::read_sealed(&folder, file.as_ref(), &self.path(name))?;
        Ok(text.map(|(_, text)| text))
    }

    /// Removes all records of a kind.
    pub fn forget(&self, kind: &str) {
        disk::remove(&self.path(kind));
    }

    /// A folder that is worked in, created where it is missing; what is in it has no record.
    ///
    /// # Errors
    /// [`Error::Environment`] when others can write to it; [`Error::Io`] or [`Error::NoSpace`].
    pub fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        private::create(&self.root, Path::new(name))?;
        Ok(self.path(name))
    }

    /// Returns whether a folder exists, which then belongs to this user alone.
    ///
    /// # Errors
    /// [`Error::Environment`] when others can write to it; [`Error::Io`].
    pub fn is_private(&self, name: &str) -> Result<bool, Error> {
        Ok(private::open(&self.root, Path::new(name))?.is_some())
    }

    /// Brings everything that was written so far to the disk.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn sync(&self) -> Result<(), Error> {
        disk::sync_all(&self.run)
    }

    /// Waits until no other process holds the lock of this name.
    ///
    /// # Errors
    /// [`Error::Stopped`] while waiting; [`Error::Io`] or [`Error::NoSpace`].
    pub fn lock(&self, name: &str, stop: &Stop) -> Result<Lock, Error> {
        Lock::wait(&self.root.join(LOCKS), &flat(name), stop)
    }
}

/// The value that was read of an entry; `None`, with a warning, where the entry is not as it was made.
///
/// # Errors
/// Every other error.
pub fn unaltered<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error @ Error::Altered { .. }) => {
            tracing::warn!("{error}");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The name of an entry as the name of one file.
fn flat(name: &str) -> String {
    name.replace('/', "%")
}

/// The place of an entry's manifest.
fn record_of(root: &Path, name: &str) -> PathBuf {
    root.join(MANIFESTS).join(flat(name))
}

/// The folder of an entry, below the root.
fn folder_of(name: &str) -> &Path {
    Path::new(name).parent().unwrap_or(Path::new(""))
}

impl Drop for Cache {
    fn drop(&mut self) {
        disk::remove(&self.run);
    }
}

/// Removes the run folders directly below `tmp` whose process is gone.
fn remove_leftovers(tmp: &Path) {
    let entries = fs::read_dir(tmp).into_iter().flatten().flatten();
    for run in entries.map(|entry| entry.path()) {
        if is_leftover(&run) {
            tracing::debug!(path = %run.display(), "removing leftovers of a killed process");
            disk::remove(&run);
        }
    }
}

/// Named as a run, a folder of this user, with the file that its process held locked until it died.
fn is_leftover(run: &Path) -> bool {
    let named = run
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(RUN_PREFIX));
    let user = rustix::process::geteuid().as_raw();
    let ours = fs::symlink_metadata(run).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    named && ours && Lock::is_released(run, ALIVE)
}

/// A file or folder in the making; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Its place, at which nothing exists yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it as a folder.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn create_dir(&self) -> Result<&Path, Error> {
        fs::create_dir(&self.path).map_err(Error::io("create", &self.path))?;
        Ok(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        disk::remove(&self.path);
    }
}

/// Checks that a folder's file system has room for so many bytes.
///
/// For programs that do not fail on a full disk: `apt-get update` (apt 2.6) hangs then.
///
/// # Errors
/// [`Error::NoSpace`]; [`Error::Io`] when statvfs(3) fails.
pub fn require_room(folder: &Path, bytes: u64, operation: &str) -> Result<(), Error> {
    let disk =
        rustix::fs::statvfs(folder).map_err(|errno| Error::io("stat", folder)(errno.into()))?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < bytes {
        return Err(Error::NoSpace {
            operation: format!("{operation} ({} MiB) to", bytes.div_ceil(1 << 20)),
            path: folder.to_path_buf(),
        });
    }
    Ok(())
}

/// Reads a file of the cache; `None` when it is not there.
///
/// # Errors
/// [`Error::Io`].
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
