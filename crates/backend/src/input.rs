//! Files that the user named, read without a chance to hang or to fill the memory.
//!
//! A named pipe would block until something writes to it, and a device such as /dev/zero never ends: only regular files
//! are read, and only up to a size. Standard input, where a command takes it, is not opened here. A link that the user
//! names is followed; one in a [`Folder`] is not.

mod folder;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

pub use folder::Folder;

/// A file that was not read; the text completes `PATH: ...`.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Not a regular file, but this.
    #[error("is {0}; expected a regular file")]
    NotRegular(&'static str),
    /// Not a folder, but this.
    #[error("is {0}; expected a folder")]
    NotAFolder(&'static str),
    /// Larger than the limit, in bytes.
    #[error("is larger than {} MiB; expected at most that", .0 >> 20)]
    TooLarge(u64),
    /// Error of the system.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl ReadError {
    /// True if there is no such file.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens a regular file. Its size is not limited: for files that are read as streams.
///
/// # Errors
/// Every [`ReadError`] but its size.
pub fn open(path: &Path) -> Result<File, ReadError> {
    open_at(CWD, path, OFlags::RDONLY)
}

/// Opens a regular file, made with [`OFlags::CREATE`]. The path is relative to the folder.
fn open_at(folder: impl AsFd, path: &Path, access: OFlags) -> Result<File, ReadError> {
    let links = match access.contains(OFlags::NOFOLLOW) {
        true => AtFlags::SYMLINK_NOFOLLOW,
        false => AtFlags::empty(),
    };
    // Opening alone makes some devices act.
    match rustix::fs::statat(&folder, path, links) {
        Err(Errno::NOENT) if access.contains(OFlags::CREATE) => {}
        found => check(&found?)?,
    }
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = File::from(rustix::fs::openat(&folder, path, flags, mode)?);
    // What was checked may have been replaced.
    check(&rustix::fs::fstat(&file)?)?;
    Ok(file)
}

/// The end of a file that a child writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Bytes before it.
    pub left_out: u64,
    /// All following bytes.
    pub bytes: Vec<u8>,
}

/// The last `most` bytes of a file, however long it is.
///
/// # Errors
/// It cannot be read.
pub fn end_of(path: &Path, most: u64) -> io::Result<FileEnd> {
    let mut file = File::open(path)?;
    let left_out = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(FileEnd { left_out, bytes })
}

/// The bytes of a regular file of at most `limit` bytes.
///
/// # Errors
/// Every [`ReadError`].
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    read_all(open(path)?, limit)
}

/// The bytes of a stream of at most `limit` bytes.
///
/// # Errors
/// A longer stream; those of the stream itself.
pub fn read_all(stream: impl Read, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    stream
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size <= limit) {
        Ok(bytes)
    } else {
        Err(ReadError::TooLarge(limit))
    }
}

/// The text of a regular file of at most `limit` bytes.
///
/// # Errors
/// Every [`ReadError`]; bytes that are not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, ReadError> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    Ok(String::from_utf8(read(path, limit)?).map_err(invalid)?)
}

fn check(found: &Stat) -> Result<(), ReadError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(ReadError::NotRegular(kind(other))),
    }
}

const fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "nothing that pagetoll knows",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::fs::mknodat;

    use super::*;

    fn refusal(path: &Path) -> String {
        read(path, 1 << 20).unwrap_err().to_string()
    }

    #[test]
    fn pipes_sockets_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, socket) = (folder.path().join("p"), folder.path().join("s"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(refusal(&pipe), "is a named pipe; expected a regular file");
        assert!(refusal(&socket).contains("is a socket"));
        assert!(refusal(Path::new("/dev/zero")).contains("is a device"));
        assert!(refusal(folder.path()).contains("is a folder"));
        assert!(
            read(&folder.path().join("none"), 1)
                .unwrap_err()
                .is_absent()
        );
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_refused_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(read(&file, 1 << 20).unwrap().len(), 1 << 20);
        std::fs::write(&file, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(
            refusal(&file),
            "is larger than 1 MiB; expected at most that"
        );
        std::fs::write(&file, b"\xff").unwrap();
        assert!(
            read_text(&file, 9)
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
