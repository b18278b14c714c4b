//! The folder where fetched and unpacked images are kept between runs.
//!
//! Everything in it can be fetched again. An entry appears by a rename, complete or not at all; what is half made lives
//! in a run folder of the process below `tmp/`, with a file that the process holds locked, so that a later process knows
//! leftovers from work in progress. Several processes may share one cache. It does not limit its size and never deletes
//! entries, nor anything that pagetoll did not make.

mod lock;
mod root;
mod sweep;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pagetoll_backend::Stop;

use crate::error::Error;
pub use lock::Lock;
use root::Maker;
pub use root::{CACHE_VARIABLE, Location, look};

const TMP: &str = "tmp";
const LOCKS: &str = "locks";
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
    /// [`Error::Io`] or [`Error::NoSpace`] when the folder cannot be written.
    pub fn open_at(root: &Path, stop: &Stop) -> Result<Self, Error> {
        fs::create_dir_all(root).map_err(Error::io("create", root))?;
        let root = fs::canonicalize(root).map_err(Error::io("open", root))?;
        root::check_path(&root)?;
        let maker = root::claim(&root)?;
        let [tmp, locks] = [TMP, LOCKS].map(|folder| root.join(folder));
        for folder in [&tmp, &locks] {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        let _sweeping = Lock::wait(&locks, SWEEP_LOCK, stop)?;
        if maker == Maker::Pagetoll {
            sweep::leftovers(&tmp);
        }
        let run = tempfile::Builder::new()
            .prefix(RUN_PREFIX)
            .tempdir_in(&tmp)
            .map_err(Error::io("write", &tmp))?;
        let alive = Lock::wait(run.path(), ALIVE, stop)?;
        Ok(Self {
            root,
            run: run.keep(),
            _alive: alive,
            next: AtomicU64::new(0),
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

    /// The entry of this name (a path below the root), made by `make` unless it exists.
    ///
    /// `make` gets a path where it shall create a file or folder. Of processes that want the same
    /// entry at the same time one makes it, and the others wait.
    ///
    /// # Errors
    /// Those of `make`; [`Error::Stopped`]; [`Error::Io`] or [`Error::NoSpace`].
    pub fn entry(
        &self,
        name: &str,
        stop: &Stop,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let path = self.path(name);
        if path.exists() {
            return Ok(path);
        }
        let _making = self.lock(name, stop)?;
        if !path.exists() {
            let scratch = self.scratch();
            make(scratch.path()).map_err(|error| error.or_no_space("fill", &self.root))?;
            scratch.publish(&path)?;
        }
        Ok(path)
    }

    /// Writes a small file in one step, over an older one of that name.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn replace(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let scratch = self.scratch();
        fs::write(scratch.path(), contents).map_err(Error::io("write", &self.root))?;
        scratch.publish(&self.path(name))
    }

    /// Waits until no other process holds the lock of this name.
    ///
    /// # Errors
    /// [`Error::Stopped`] while waiting; [`Error::Io`] or [`Error::NoSpace`].
    pub fn lock(&self, name: &str, stop: &Stop) -> Result<Lock, Error> {
        Lock::wait(&self.root.join(LOCKS), &name.replace('/', "%"), stop)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        remove(&self.run);
    }
}

/// A file or folder in the making; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Where to make it. Nothing exists there yet.
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

    /// Gives it its final name.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub fn publish(self, path: &Path) -> Result<(), Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        fs::rename(&self.path, path).map_err(Error::io("write", path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a file or folder if it is there; what cannot be removed is swept by a later run.
fn remove(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    let removed = if meta.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "left behind");
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
mod tests;
