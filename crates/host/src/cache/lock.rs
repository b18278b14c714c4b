//! Locks between processes: flock(2) on files that are never followed to elsewhere.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::Stop;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::disk;
use crate::error::Error;

/// Between two attempts at a lock that another process holds.
const POLL: Duration = Duration::from_millis(50);

/// A longer wait is said: it is for a build.
const PATIENCE: Duration = Duration::from_secs(20);

/// A lock on a file, held until dropped; the kernel drops it when the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock on `folder/name`. Creates the file, and leaves what an existing one holds as it is.
    pub(super) fn wait(folder: &Path, name: &str, stop: &Stop) -> Result<Self, Error> {
        let began = Instant::now();
        let mut said = false;
        loop {
            if let Some(lock) = Self::attempt(folder, name)? {
                return Ok(lock);
            }
            stop.check()?;
            thread::sleep(POLL);
            if !said && began.elapsed() > PATIENCE {
                said = true;
                let entry = name.replace('%', "/");
                tracing::warn!("waits for another process, which works on {entry} in the cache");
            }
        }
    }

    /// Takes the lock without waiting: `None` while another process holds it.
    pub(super) fn attempt(folder: &Path, name: &str) -> Result<Option<Self>, Error> {
        let file = disk::locked(&folder.join(name))
            .and_then(|()| Ok(open(folder, name, OFlags::CREATE | OFlags::RDWR)?));
        let file = file.map_err(Error::io("lock", folder.join(name)))?;
        Self::attempt_on(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// A lock on an open file; `None` while another process holds one that excludes it.
    pub(super) fn attempt_on(file: File, operation: FlockOperation) -> Result<Option<Self>, Error> {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(errno) => Err(Error::io("lock", "a file of the cache")(errno.into())),
        }
    }

    /// Returns whether `folder/name` is a file that no process holds locked.
    pub(super) fn is_released(folder: &Path, name: &str) -> bool {
        open(folder, name, OFlags::RDONLY).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        })
    }
}

/// Neither the folder nor the file may be a symbolic link: one in a cache could lead to any file of the user's.
fn open(folder: &Path, name: &str, access: OFlags) -> Result<File, Errno> {
    let only = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(
        CWD,
        folder,
        only | OFlags::DIRECTORY | OFlags::RDONLY,
        Mode::empty(),
    )?;
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::openat(&folder, name, only | access | OFlags::NONBLOCK, mode).map(File::from)
}
