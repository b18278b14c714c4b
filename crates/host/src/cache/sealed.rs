//! Small files that carry their own digest: what is torn or altered counts as absent.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{disk, private};
use crate::digest::sha256_of;
use crate::error::Error;

/// The text as it is written: its SHA-256, a line end, the text.
pub(super) fn seal(text: &[u8]) -> Vec<u8> {
    let mut sealed = sha256_of(text).into_bytes();
    sealed.push(b'\n');
    sealed.extend_from_slice(text);
    sealed
}

/// Reads a file of an open folder; `None` where it is not there, torn, altered, or could have been changed by others.
pub(super) fn read(
    folder: &OwnedFd,
    name: &Path,
    path: &Path,
) -> Result<Option<(File, Vec<u8>)>, Error> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || {
        disk::opened(path)?;
        Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
    };
    let mut file = match open() {
        Ok(file) => File::from(file),
        Err(error) => match Errno::from_io_error(&error) {
            // The cache creates no symbolic links.
            Some(Errno::NOENT | Errno::LOOP) => return Ok(None),
            _ => return Err(Error::io("read", path)(error)),
        },
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| Error::io("read", path)(errno.into()))?;
    if !private::is_private_file(&stat) {
        return Ok(None);
    }
    let mut sealed = Vec::new();
    file.read_to_end(&mut sealed)
        .map_err(Error::io("read", path))?;
    let Some(end) = sealed.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let (digest, text) = (&sealed[..end], &sealed[end + 1..]);
    Ok((digest == sha256_of(text).as_bytes()).then(|| (file, text.to_vec())))
}
