//! Unpacks Debian packages into the cache, each once.
//!
//! Only the files: nothing is configured, and no script of a package ever runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::{self, Tool};

/// Time limit of unpacking one package. Assumed: 160 MB of modules on a slow disk.
const UNPACK_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The folder with a package's files, unpacked unless it has been before.
///
/// # Errors
/// [`Error::MissingTools`], [`Error::Process`] for a damaged package, [`Error::NoSpace`],
/// [`Error::Stopped`].
pub fn unpacked(cache: &Cache, deb: &Entry, sha256: &str, stop: &Stop) -> Result<Entry, Error> {
    cache.entry(&format!("unpacked/{sha256}"), stop, |folder| {
        unpack_into(folder, std::slice::from_ref(deb), stop)
    })
}

/// Unpacks packages into a new folder: each into one of its own, which are then merged. So no package's symbolic
/// link leads the files of another elsewhere.
///
/// # Errors
/// As [`unpacked`]; [`Error::Environment`] for packages that have the same file.
pub fn unpack_into(folder: &Path, debs: &[Entry], stop: &Stop) -> Result<(), Error> {
    tools::check(&[Tool::DpkgDeb])?;
    fs::create_dir(folder).map_err(Error::io("create", folder))?;
    let alone = folder.with_extension("package");
    for deb in debs {
        fs::create_dir(&alone).map_err(Error::io("create", &alone))?;
        let run = Run::new(Tool::DpkgDeb.program())
            .arg("-x")
            .arg(deb.whole()?)
            .arg(&alone);
        run_to_end(&run, UNPACK_LIMIT, stop)?;
        merge(&alone, folder, deb.path())?;
    }
    Ok(())
}

/// Moves everything in `from` into `into`. What both have is a folder, else the package is refused.
fn merge(from: &Path, into: &Path, deb: &Path) -> Result<(), Error> {
    for child in fs::read_dir(from).map_err(Error::io("read", from))? {
        let child = child.map_err(Error::io("read", from))?;
        let (source, target) = (child.path(), into.join(child.file_name()));
        let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        if fs::symlink_metadata(&target).is_err() {
            fs::rename(&source, &target).map_err(Error::io("write", &target))?;
        } else if is_folder(&source) && is_folder(&target) {
            merge(&source, &target, deb)?;
        } else {
            return Err(Error::Environment {
                what: format!(
                    "{} has {}, and so has a package that belongs to it",
                    deb.display(),
                    target.display()
                ),
                remedy: "packages of one kernel have no file in common: refresh the package lists"
                    .into(),
            });
        }
    }
    fs::remove_dir(from).map_err(Error::io("remove", from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_package_leaves_nothing() {
        if tools::check(&[Tool::DpkgDeb]).is_err() {
            pagetoll_test_support::skip!("dpkg-deb is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
        let deb = folder.path().join("bad.deb");
        fs::write(&deb, "not a package").unwrap();
        let deb = Entry::from_user(deb);
        let error = unpacked(&cache, &deb, "00", &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("bad.deb"), "{error}");
        assert!(!cache.path("unpacked/00").exists());
    }

    /// A package of these files.
    fn package(folder: &Path, name: &str, furnish: impl FnOnce(&Path)) -> Entry {
        let root = folder.join(name);
        fs::create_dir_all(root.join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        );
        fs::write(root.join("DEBIAN/control"), control).unwrap();
        furnish(&root);
        let deb = folder.join(format!("{name}.deb"));
        let mut build = std::process::Command::new("dpkg-deb");
        let built = build
            .args(["--root-owner-group", "-b"])
            .arg(root)
            .arg(&deb)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        Entry::from_user(deb)
    }

    #[test]
    fn a_symbolic_link_of_one_package_does_not_lead_another_elsewhere() {
        if tools::check(&[Tool::DpkgDeb]).is_err() {
            pagetoll_test_support::skip!("dpkg-deb is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let link = |root: &Path| {
            fs::create_dir(root.join("usr")).unwrap();
            std::os::unix::fs::symlink(&outside, root.join("usr/src")).unwrap();
        };
        let file = |root: &Path| {
            fs::create_dir_all(root.join("usr/src")).unwrap();
            fs::write(root.join("usr/src/pwned"), "").unwrap();
        };
        let one = package(folder.path(), "one", link);
        let two = package(folder.path(), "two", file);
        for (name, debs) in [("a", [one.clone(), two.clone()]), ("b", [two, one])] {
            let error = unpack_into(&folder.path().join(name), &debs, &Stop::new()).unwrap_err();
            assert!(error.to_string().contains("usr/src, and so has"), "{error}");
            assert!(!outside.join("pwned").exists());
        }
    }

    #[test]
    fn packages_that_share_folders_alone_are_merged() {
        if tools::check(&[Tool::DpkgDeb]).is_err() {
            pagetoll_test_support::skip!("dpkg-deb is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let with = |name: &str| {
            let path = format!("usr/src/{name}");
            package(folder.path(), name, |root| {
                fs::create_dir_all(root.join("usr/src")).unwrap();
                fs::write(root.join(path), name).unwrap();
            })
        };
        let [one, two] = ["one", "two"].map(with);
        let place = folder.path().join("merged");
        unpack_into(&place, &[one, two], &Stop::new()).unwrap();
        assert_eq!(fs::read(place.join("usr/src/one")).unwrap(), b"one");
        assert_eq!(fs::read(place.join("usr/src/two")).unwrap(), b"two");
        assert!(!folder.path().join("merged.package").exists());
    }
}
