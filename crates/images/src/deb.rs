//! Unpacks Debian packages into the cache, each once.
//!
//! Only the files: nothing is configured, and no script of a package ever runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache::Cache;
use crate::error::Error;
use crate::process::{Run, run_to_end};
use crate::tools::{self, Tool};
use pagetoll_backend::Stop;

/// How long unpacking one package may take. Assumed: 160 MB of modules on a slow disk.
const UNPACK_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The folder with a package's files, unpacked unless it has been before.
///
/// # Errors
/// [`Error::MissingTools`], [`Error::Process`] for a damaged package, [`Error::NoSpace`],
/// [`Error::Stopped`].
pub fn unpacked(cache: &Cache, deb: &Path, sha256: &str, stop: &Stop) -> Result<PathBuf, Error> {
    cache.entry(&format!("unpacked/{sha256}"), stop, |folder| {
        unpack_into(folder, &[deb.to_path_buf()], stop)
    })
}

/// Unpacks packages over one another into a new folder.
///
/// # Errors
/// As [`unpacked`].
pub fn unpack_into(folder: &Path, debs: &[PathBuf], stop: &Stop) -> Result<(), Error> {
    tools::check(&[Tool::DpkgDeb])?;
    fs::create_dir(folder).map_err(Error::io("create", folder))?;
    for deb in debs {
        let run = Run::new(Tool::DpkgDeb.program())
            .arg("-x")
            .arg(deb)
            .arg(folder);
        run_to_end(&run, UNPACK_LIMIT, stop)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_package_leaves_nothing() {
        if tools::check(&[Tool::DpkgDeb]).is_err() {
            crate::skipped(&"dpkg-deb is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        let deb = folder.path().join("bad.deb");
        fs::write(&deb, "not a package").unwrap();
        let error = unpacked(&cache, &deb, "00", &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("bad.deb"), "{error}");
        assert!(!cache.path("unpacked/00").exists());
    }
}
