//! A folder from elsewhere, whose entries may be links to anything of the user's.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{ReadError, kind, open_at, read_all};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// An open folder. Its entries are opened by their names below its descriptor, and no symbolic link among them is
/// followed: nothing else is reached, whatever takes the place of the folder or of an entry meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Folder {
    /// Opens a folder that the user named, through a link where it is one.
    ///
    /// # Errors
    /// [`ReadError::NotAFolder`], [`ReadError::Io`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_at(CWD, path, OFlags::empty(), path.to_owned())
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// [`ReadError::NotAFolder`], also of a link; [`ReadError::Io`].
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<Self, ReadError> {
        let name = name.as_ref();
        Self::open_at(self, name, OFlags::NOFOLLOW, self.path.join(name))
    }

    /// Opens a regular file in this folder, or makes one with [`OFlags::CREATE`].
    ///
    /// # Errors
    /// [`ReadError::NotRegular`], also of a link; [`ReadError::Io`].
    pub fn file(&self, name: impl AsRef<Path>, access: OFlags) -> Result<File, ReadError> {
        open_at(self, name.as_ref(), access | OFlags::NOFOLLOW)
    }

    /// The bytes of a regular file of at most `limit` bytes in this folder.
    ///
    /// # Errors
    /// [`ReadError::NotRegular`], also of a link; [`ReadError::TooLarge`], [`ReadError::Io`].
    pub fn read(&self, name: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, ReadError> {
        read_all(self.file(name, OFlags::RDONLY)?, limit)
    }

    /// The names of its entries, in order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self)? {
            names.push(OsString::from_vec(entry?.file_name().to_bytes().to_vec()));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    /// Path when it was opened, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_at(
        at: impl AsFd,
        name: &Path,
        links: OFlags,
        path: PathBuf,
    ) -> Result<Self, ReadError> {
        match rustix::fs::openat(&at, name, FOLDER | links, Mode::empty()) {
            Ok(descriptor) => Ok(Self { path, descriptor }),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = rustix::fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let found = FileType::from_raw_mode(found.st_mode);
                Err(ReadError::NotAFolder(kind(found)))
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal<T: std::fmt::Debug>(result: Result<T, ReadError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_folder_may_be_reached_by_a_link_and_no_entry_may_be_one() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir_all(real.join("below")).unwrap();
        fs::write(real.join("file"), "text").unwrap();
        symlink(&real, &link).unwrap();
        symlink("file", real.join("to-file")).unwrap();
        symlink("below", real.join("to-folder")).unwrap();
        symlink("nowhere", real.join("to-nothing")).unwrap();
        let folder = Folder::open(&link).unwrap();
        let names = ["below", "file", "to-file", "to-folder", "to-nothing"];
        assert_eq!(folder.names().unwrap(), names);
        assert_eq!(folder.read("file", 4).unwrap(), b"text");
        assert!(folder.folder("below").unwrap().names().unwrap().is_empty());
        let linked = "is a symbolic link; expected a regular file";
        assert_eq!(refusal(folder.read("to-file", 4)), linked);
        let created = folder.file("to-nothing", OFlags::CREATE | OFlags::WRONLY);
        assert_eq!(refusal(created), linked);
        assert!(!real.join("nowhere").exists());
        assert_eq!(
            refusal(folder.folder("to-folder")),
            "is a symbolic link; expected a folder"
        );
        assert_eq!(
            refusal(folder.folder("file")),
            "is a file; expected a folder"
        );
        assert!(folder.folder("none").unwrap_err().is_absent());
    }

    #[test]
    fn an_open_folder_is_not_exchanged_for_what_takes_its_place() {
        let place = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| place.path().join(name));
        for folder in [&own, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), folder.to_str().unwrap()).unwrap();
        }
        let folder = Folder::open(&own).unwrap();
        fs::rename(&own, place.path().join("aside")).unwrap();
        symlink(&other, &own).unwrap();
        let bytes = folder.read("file", 1 << 20).unwrap();
        assert_eq!(bytes, own.to_str().unwrap().as_bytes());
    }
}
