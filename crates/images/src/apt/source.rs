//! Fetches source packages of Debian through apt, into the cache.
//!
//! A mirror may list sources that it has not the files of; the newest version that it has all files of is taken. It is
//! recorded, and used until a refresh is asked for.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_backend::Stop;
use pagetoll_bill::Package;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::digest::sha256_of_file;

use super::mirror::no_mirror;
use super::root::{Holds, PrivateRoot};
use super::suites::{Freshness, suite_named};
use super::{mirror, sources, version};

/// A source package that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePackage {
    /// Its name and version; its digest is that of the description, which has the digests of all other files.
    pub package: Package,
    /// The description (`*.dsc`), beside the files that it names.
    pub description: PathBuf,
    /// The folder of all of them.
    pub files: Entry,
}

/// Fetches a source package of a suite; `None` is the suite that this system runs.
///
/// # Errors
/// [`Error::BadInput`] for a suite that has no such package; [`Error::Environment`] when the mirror has the files of
/// no version; those of [`Archive::open`](super::Archive::open).
pub fn fetch(
    name: &str,
    suite: Option<&str>,
    cache: &Cache,
    freshness: Freshness,
    stop: &Stop,
) -> Result<SourcePackage, Error> {
    let suite = suite_named(suite, cache, freshness, stop)?;
    let root = PrivateRoot::new(cache, &suite, Holds::Sources);
    let _lock = cache.lock(root.name(), stop)?;
    let record = format!("suites/{suite}.source.{name}.json");
    if let (Freshness::Cached, Some(known)) = (freshness, recorded(cache, &record)?) {
        return Ok(known);
    }
    let lines = sources::sources_for(&suite, &mirror::targets(stop)?).ok_or_else(no_mirror)?;
    root.update_sources(&lines, stop)?;
    let mut versions = root.versions_of_source(name, stop)?;
    versions.sort_by(|a, b| version::compare(b, a));
    versions.dedup();
    let package = newest(&root, name, &versions, cache, stop)?.ok_or_else(|| Error::BadInput {
        what: "suite",
        value: suite,
        problem: format!("has no source package {name}"),
        expected: "a suite with one, such as stable".into(),
    })?;
    let json = serde_json::to_vec_pretty(&package).unwrap_or_default();
    cache.record(&record, &json)?;
    in_cache(cache, package)?.ok_or_else(no_description)
}

/// The newest version whose files can all be had; `None` where there are no versions.
fn newest(
    root: &PrivateRoot<'_>,
    name: &str,
    versions: &[String],
    cache: &Cache,
    stop: &Stop,
) -> Result<Option<Package>, Error> {
    let mut first_error = None;
    for version in versions {
        let scratch = cache.scratch();
        let folder = scratch.create_dir()?;
        match root.download_source(name, version, folder, stop) {
            Ok(()) => {
                let package = Package {
                    name: name.to_owned(),
                    version: version.clone(),
                    sha256: sha256_of_file(&description_in(folder)?)?,
                };
                cache.publish(folder, &name_of(&package))?;
                return Ok(Some(package));
            }
            Err(error @ Error::Environment { .. }) => first_error = first_error.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// `None` where nothing was recorded, or its files are gone.
fn recorded(cache: &Cache, record: &str) -> Result<Option<SourcePackage>, Error> {
    let bytes = cache.recorded(record)?;
    let package: Option<Package> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    package.map_or(Ok(None), |package| in_cache(cache, package))
}

fn in_cache(cache: &Cache, package: Package) -> Result<Option<SourcePackage>, Error> {
    let Some(files) = cache.known(&name_of(&package))? else {
        return Ok(None);
    };
    Ok(Some(SourcePackage {
        description: description_in(files.path())?,
        package,
        files,
    }))
}

/// The name of its files as an entry.
fn name_of(package: &Package) -> String {
    format!("sources/{}", package.sha256)
}

fn description_in(folder: &Path) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(|path| path.extension() == Some("dsc".as_ref()))
        .ok_or_else(no_description)
}

fn no_description() -> Error {
    Error::Environment {
        what: "what apt fetched of a source package holds no *.dsc".into(),
        remedy: "refresh the package lists and try again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_source_needs_neither_apt_nor_network_while_its_files_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        let package = Package {
            name: "xen".into(),
            version: "4.17.5-1".into(),
            sha256: "ab".into(),
        };
        let record = "suites/nowhere.source.xen.json";
        cache
            .record(record, &serde_json::to_vec(&package).unwrap())
            .unwrap();
        assert_eq!(recorded(&cache, record).unwrap(), None);
        let scratch = cache.scratch();
        let made = scratch.create_dir().unwrap();
        fs::write(made.join("xen_4.17.5-1.dsc"), "").unwrap();
        let kept = cache.publish(made, &name_of(&package)).unwrap();
        let known = fetch(
            "xen",
            Some("nowhere"),
            &cache,
            Freshness::Cached,
            &Stop::new(),
        )
        .unwrap();
        assert_eq!(known.package, package);
        assert_eq!(known.description, kept.path().join("xen_4.17.5-1.dsc"));
        assert!(!cache.path("apt/nowhere-source").exists());
    }
}
