//! Every write to the cache's file system, in steps that tests make fail one after the other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::private;
use crate::digest::sha256_of;
use crate::error::Error;

/// The text as it is written: its SHA-256, a line end, the text.
pub(super) fn seal(text: &[u8]) -> Vec<u8> {
    let mut sealed = sha256_of(text).into_bytes();
    sealed.push(b'\n');
    sealed.extend_from_slice(text);
    sealed
}

fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let end = sealed.iter().position(|&byte| byte == b'\n')?;
    let (digest, text) = (&sealed[..end], &sealed[end + 1..]);
    (digest == sha256_of(text).as_bytes()).then_some(text)
}

/// Reads a file of an open folder; `None` where it is not there, torn, altered, or could have been changed by others.
pub(super) fn read_sealed(
    folder: &OwnedFd,
    name: &Path,
    path: &Path,
) -> Result<Option<(File, Vec<u8>)>, Error> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || {
        opened(path)?;
        Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
    };
    let mut file = match open() {
        Ok(file) => File::from(file),
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| Error::io("read", path)(errno.into()))?;
    if !private::is_private_file(&stat) {
        return Ok(None);
    }
    let mut sealed = Vec::new();
    file.read_to_end(&mut sealed)
        .map_err(Error::io("read", path))?;
    Ok(unseal(&sealed).map(|text| (file, text.to_vec())))
}

/// A symbolic link is nothing that the cache has made.
fn is_absence(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::LOOP))
}

#[cfg(test)]
pub(super) use super::faults::at;

/// The place of faults that tests inject; without effect otherwise.
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
