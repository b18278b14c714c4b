//! The folder where fetched and unpacked images are kept between runs.
//!
//! Everything in it can be fetched again. An entry appears by a rename, complete or not at all;
//! what is half made lives in a folder of the running process below `tmp/`, which that process
//! holds locked, so that any later process can tell leftovers of the dead from work of the living.
//! Several processes may share one cache. It does not limit its size and never deletes entries.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::Error;
use pagetoll_backend::Stop;

/// The variable that names another folder than the user's cache folder.
pub const CACHE_VARIABLE: &str = "PAGETOLL_CACHE";

/// How often a held lock is tried again.
const LOCK_POLL: Duration = Duration::from_millis(50);

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
        Self::open_at(&default_root(|name| env::var_os(name))?, stop)
    }

    /// Opens the cache at this folder, creates it where needed, and sweeps leftovers of dead processes.
    ///
    /// # Errors
    /// [`Error::BadInput`] when the path has white space or a colon, which kbuild does not bear;
    /// [`Error::Io`] or [`Error::NoSpace`] when the folder cannot be written.
    pub fn open_at(root: &Path, stop: &Stop) -> Result<Self, Error> {
        for folder in ["tmp", "locks"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        }
        let root = fs::canonicalize(root).map_err(Error::io("open", root))?;
        check_path(&root)?;
        let tmp = root.join("tmp");
        let _sweeping = Lock::wait(&root.join("locks/sweep"), stop)?;
        sweep(&tmp);
        let run = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&tmp)
            .map_err(Error::io("write", &tmp))?;
        let alive = Lock::wait(&run.path().join("alive"), stop)?;
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

    /// A path for work in progress, which nobody else uses and which vanishes unless it is renamed.
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
    /// Whatever `make` says; [`Error::Stopped`]; [`Error::Io`] or [`Error::NoSpace`].
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
        Lock::wait(&self.root.join("locks").join(name.replace('/', "%")), stop)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        remove(&self.run);
    }
}

/// A lock on a file, held until dropped; the system drops it when the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    fn wait(path: &Path, stop: &Stop) -> Result<Self, Error> {
        let file = File::create(path).map_err(Error::io("write", path))?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => stop.check()?,
                Err(errno) => return Err(Error::io("lock", path)(errno.into())),
            }
            thread::sleep(LOCK_POLL);
        }
    }

    /// `None` when somebody holds it; a lock file that is not there is held by nobody.
    fn is_free(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        }) || !path.exists()
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

fn sweep(tmp: &Path) {
    let entries = fs::read_dir(tmp).into_iter().flatten().flatten();
    for run in entries.map(|entry| entry.path()) {
        if Lock::is_free(&run.join("alive")) {
            tracing::debug!(path = %run.display(), "removing leftovers of a dead process");
            remove(&run);
        }
    }
}

fn check_path(root: &Path) -> Result<(), Error> {
    let text = root.to_string_lossy();
    if text.chars().any(|c| c.is_whitespace() || c == ':') {
        return Err(Error::bad_file(
            CACHE_VARIABLE,
            root,
            "contains white space or a colon, which kernel module builds do not bear",
            "a path without them",
        ));
    }
    Ok(())
}

fn default_root(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
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

/// Checks that a folder's file system has room for so many bytes.
///
/// For programs that do not fail well on a full disk: `apt-get update` (apt 2.6) then waits for ever.
///
/// # Errors
/// [`Error::NoSpace`]; [`Error::Io`] when the system does not tell.
pub fn require_room(folder: &Path, bytes: u64, operation: &str) -> Result<(), Error> {
    let disk =
        rustix::fs::statvfs(folder).map_err(|errno| Error::io("look at", folder)(errno.into()))?;
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
