//! Files for results: what is at the path is a whole result, or what was there before.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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

fn write_synced<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = File::create_new(path)?;
    write(&mut file)?;
    Ok(file.sync_all()?)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
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
