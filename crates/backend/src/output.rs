//! Files for results: what is at the path is a whole result, or what was there before.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

/// Writes a file beside, syncs it and renames it; a regular file that was there is kept as `FILE.old`, as `perf record`
/// does. When `write` fails, what was there is still there.
///
/// # Errors
/// Those of `write` and of the file system.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    // A device or a pipe, such as /dev/stderr, cannot be replaced.
    if path.exists() && !path.is_file() {
        return write(&mut File::create(path)?);
    }
    let beside = with_suffix(path, &format!(".{}.tmp", std::process::id()));
    let written = write_synced(&beside, write)
        .and_then(|()| Ok(set_aside(path)?))
        .and_then(|()| Ok(fs::rename(&beside, path)?));
    if written.is_err() {
        // What is left of a failed write is of no use, and the failure is what counts.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Moves a regular file that is there to `FILE.old`.
///
/// # Errors
/// Those of the file system.
pub fn set_aside(path: &Path) -> io::Result<()> {
    match path.is_file() {
        true => fs::rename(path, with_suffix(path, ".old")),
        false => Ok(()),
    }
}

/// The file has its name once it is whole, so that a process that is killed leaves none.
fn write_synced<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let unnamed = unnamed(path);
    let mut file = match &unnamed {
        Some(file) => file.try_clone()?,
        // Of a file system that has no files without names.
        None => File::create_new(path)?,
    };
    write(&mut file)?;
    file.sync_all()?;
    if unnamed.is_some() {
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, held, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)?;
    }
    Ok(())
}

/// A file in the folder of a path, without a name.
fn unnamed(path: &Path) -> Option<File> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mode = Mode::from_raw_mode(0o666);
    let file = openat(
        CWD,
        folder,
        OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
        mode,
    );
    file.ok().map(File::from)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use pagetoll_test_support::names;

    use std::io::Write;

    use super::*;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_file_that_was_there_is_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.json");
        write(&file, "one").unwrap();
        write(&file, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        let old = folder.path().join("b.json.old");
        assert_eq!(fs::read_to_string(old).unwrap(), "one");
        assert_eq!(names(folder.path()), ["b.json", "b.json.old"]);
    }

    #[test]
    fn a_file_that_is_being_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.json");
        if unnamed(&file).is_none() {
            // As on overlayfs before Linux 6.1.
            assert!(write(&file, "one").is_ok());
            return;
        }
        let seen = |_: &mut File| -> io::Result<()> {
            assert!(names(folder.path()).is_empty());
            Ok(())
        };
        replace(&file, seen).unwrap();
        assert_eq!(names(folder.path()), ["b.json"]);
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.json");
        write(&file, "one").unwrap();
        let failed = replace(&file, |file| {
            file.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        assert_eq!(names(folder.path()), ["b.json"]);
    }
}
