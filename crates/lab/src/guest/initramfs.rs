//! The guest's file system: an archive of a few files, the same bytes for the same contents.
//!
//! Format: cpio "newc", Linux's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Write};

use cpio::newc::{Builder, ModeFileType, trailer};

/// Folders that the kernel and init mount on, and where modules lie.
const FOLDERS: [&str; 4] = ["dev", "proc", "sys", "modules"];

/// A file of the archive.
pub(crate) struct Member<'a> {
    /// Path without a leading slash.
    pub(crate) name: &'a str,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Its contents.
    pub(crate) bytes: &'a [u8],
}

/// Assembles the archive.
///
/// # Errors
/// A member beyond 4 GiB, which the format cannot hold.
pub(crate) fn assemble(members: &[Member<'_>]) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut inode = 1;
    for folder in FOLDERS {
        let entry = Builder::new(folder).ino(inode).nlink(2).mode(0o755);
        archive = entry
            .set_mode_file_type(ModeFileType::Directory)
            .write(archive, 0)
            .finish()?;
        inode += 1;
    }
    for member in members {
        let size = u32::try_from(member.bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, member.name.to_owned()))?;
        let entry = Builder::new(member.name)
            .ino(inode)
            .nlink(1)
            .mode(member.mode);
        let mut writer = entry
            .set_mode_file_type(ModeFileType::Regular)
            .write(archive, size);
        writer.write_all(member.bytes)?;
        archive = writer.finish()?;
        inode += 1;
    }
    trailer(archive)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    #[test]
    fn the_archive_holds_the_files_and_is_the_same_each_time() {
        let members = [
            Member {
                name: "init",
                mode: 0o755,
                bytes: b"program",
            },
            Member {
                name: "order",
                mode: 0o644,
                bytes: b"pages 1\n",
            },
        ];
        let archive = assemble(&members).unwrap();
        assert_eq!(archive, assemble(&members).unwrap());
        let mut rest: Box<dyn Read> = Box::new(Cursor::new(archive));
        let mut seen = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            seen.push((
                reader.entry().name().to_owned(),
                reader.entry().mode(),
                bytes,
            ));
            rest = reader.finish().unwrap();
        }
        assert_eq!(seen.len(), FOLDERS.len() + 2);
        assert_eq!(seen[4], ("init".to_owned(), 0o100_755, b"program".to_vec()));
        assert_eq!(seen[0].1, 0o040_755);
    }
}
