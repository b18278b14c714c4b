//! Every write to the cache's file system, in steps that tests make fail one after the other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::Error;

#[cfg(test)]
pub(super) use super::faults::at;

/// Hook for tests, which inject faults here; does nothing in a program.
#[cfg(not(test))]
fn at(_step: &str, _path: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a new file and brings it to the disk.
pub(super) fn write(path: &Path, contents: &[u8]) -> Result<(), Error> {
    let written = || {
        at("create", path)?;
        // Another's hands are kept off it whatever the umask.
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let half = contents.len() / 2;
        file.write_all(&contents[..half])?;
        at("write", path)?;
        file.write_all(&contents[half..])?;
        at("fsync", path)?;
        file.sync_all()
    };
    written().map_err(Error::io("write", path))
}

/// Gives a file or folder its name, over a file of that name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    at("rename", to)
        .and_then(|()| fs::rename(from, to))
        .map_err(Error::io("write", to))
}

/// Brings a file, or the names in a folder, to the disk.
pub(super) fn sync(path: &Path) -> Result<(), Error> {
    at("fsync", path)
        .and_then(|()| File::open(path)?.sync_all())
        .map_err(Error::io("write", path))
}

/// Brings everything on the file system of an open folder to the disk.
pub(super) fn sync_all(folder: &Path) -> Result<(), Error> {
    let synced = || {
        at("syncfs", folder)?;
        Ok(rustix::fs::syncfs(File::open(folder)?)?)
    };
    synced().map_err(Error::io("write", folder))
}

/// Opens a lock file, which creates it.
pub(super) fn locked(path: &Path) -> io::Result<()> {
    at("lock", path)
}

/// Opens a file of an entry to be read.
pub(super) fn opened(path: &Path) -> io::Result<()> {
    at("open", path)
}

/// Removes a file or folder if it is there; what cannot be removed is swept by a later run.
pub(super) fn remove(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    let removed = at("remove", path).and_then(|()| match meta.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    });
    if let Err(error) = removed {
        tracing::warn!("cannot remove {}: {error}", path.display());
    }
}
