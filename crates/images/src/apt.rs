//! Fetches packages of Debian through apt, into the cache.
//!
//! What a suite offers is recorded once and used without apt or network until a refresh is asked
//! for: two runs see the same kernel although Debian publishes new ones. Package files are kept
//! by their SHA-256, which is compared with the one in apt's verified lists.
//! Nothing is installed, and the system's apt set-up is not changed.

pub mod index;
mod mirror;
pub mod resolve;
mod root;
pub mod source;
mod sources;
mod suites;
pub mod version;

use std::fs;
use std::path::Path;

use index::Listed;
use mirror::no_mirror;
use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Package};
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::digest::sha256_of_file;
use resolve::Index;
use root::{Holds, PrivateRoot};
use suites::suite_named;

pub use mirror::Mirror;
pub use suites::{Freshness, suites};

/// One suite of Debian: what it offers, and the means to fetch it.
#[derive(Debug)]
pub struct Archive<'a> {
    cache: &'a Cache,
    suite: String,
    index: Index,
    root: PrivateRoot<'a>,
}

impl<'a> Archive<'a> {
    /// Opens a suite, for machines with a processor; `None` is the one that this system runs.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a suite that the mirror does not have; [`Error::Environment`]
    /// without apt, a Debian mirror, or a working network; those of the cache.
    pub fn open(
        cache: &'a Cache,
        suite: Option<&str>,
        arch: Arch,
        freshness: Freshness,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let suite = suite_named(suite, cache, freshness, stop)?;
        let root = PrivateRoot::new(cache, &suite, Holds::Packages(arch));
        let _lock = cache.lock(root.name(), stop)?;
        let recorded = match freshness {
            Freshness::Cached => recorded(cache, &suite, arch)?,
            Freshness::Refresh => None,
        };
        let index = match recorded {
            Some(index) => index,
            None => record(cache, &root, stop)?,
        };
        Ok(Self {
            cache,
            suite,
            index,
            root,
        })
    }

    /// The suite's name.
    #[must_use]
    pub fn suite(&self) -> &str {
        &self.suite
    }

    /// The processor that its packages are for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.index.arch
    }

    /// Packages that the suite offers.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Fetches packages, those that the cache has not, and gives them in the same order.
    ///
    /// # Errors
    /// [`Error::Environment`] when apt cannot fetch one or its digest is not the listed one;
    /// [`Error::NoSpace`]; [`Error::Stopped`].
    pub fn fetch(&self, packages: &[Listed], stop: &Stop) -> Result<Vec<Entry>, Error> {
        if !self.missing(packages)?.is_empty() {
            let _lock = self.cache.lock(self.root.name(), stop)?;
            self.adopt(&self.missing(packages)?)?;
            self.download(&self.missing(packages)?, stop)?;
        }
        let kept = packages.iter().map(|listed| {
            let kept = self.cache.known(&name_of(&listed.package))?;
            kept.ok_or_else(|| self.not_as_listed(&listed.package))
        });
        kept.collect()
    }

    /// Fetches one package, unless the cache has it.
    ///
    /// # Errors
    /// As [`Archive::fetch`].
    pub fn fetch_one(&self, listed: &Listed, stop: &Stop) -> Result<Entry, Error> {
        let mut kept = self.fetch(std::slice::from_ref(listed), stop)?;
        kept.pop()
            .ok_or_else(|| self.not_as_listed(&listed.package))
    }

    fn missing<'p>(&self, packages: &'p [Listed]) -> Result<Vec<&'p Listed>, Error> {
        let mut missing = Vec::new();
        for listed in packages {
            if self.cache.known(&name_of(&listed.package))?.is_none() {
                missing.push(listed);
            }
        }
        Ok(missing)
    }

    /// Keeps the packages that an older pagetoll fetched: their digests are their names.
    fn adopt(&self, packages: &[&Listed]) -> Result<(), Error> {
        for listed in packages {
            let place = self.cache.path(&name_of(&listed.package));
            if fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_file()) {
                let scratch = self.cache.scratch();
                fs::rename(&place, scratch.path()).map_err(Error::io("write", &place))?;
                self.keep(scratch.path(), packages)?;
            }
        }
        Ok(())
    }

    fn download(&self, packages: &[&Listed], stop: &Stop) -> Result<(), Error> {
        if packages.is_empty() {
            return Ok(());
        }
        if !self.root.has_lists()? {
            record(self.cache, &self.root, stop)?;
        }
        let scratch = self.cache.scratch();
        let folder = scratch.create_dir()?;
        self.root.download(packages, folder, stop)?;
        for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let file = entry.map_err(Error::io("read", folder))?.path();
            self.keep(&file, packages)?;
        }
        Ok(())
    }

    /// Makes an entry of a file that has the digest of a package; others are not believed.
    fn keep(&self, file: &Path, packages: &[&Listed]) -> Result<(), Error> {
        let digest = sha256_of_file(file)?;
        let is_listed = |listed: &&&Listed| listed.package.sha256 == digest;
        match packages.iter().find(is_listed) {
            Some(listed) => self
                .cache
                .publish(file, &name_of(&listed.package))
                .map(drop),
            None => Ok(()),
        }
    }

    fn not_as_listed(&self, package: &Package) -> Error {
        Error::Environment {
            what: format!(
                "what apt fetched of {} for {} {} does not have the SHA-256 {}",
                self.suite, package.name, package.version, package.sha256
            ),
            remedy: "refresh the package lists and try again".into(),
        }
    }
}

/// The name of a package's file as an entry.
fn name_of(package: &Package) -> String {
    format!("packages/{}.deb", package.sha256)
}

/// The name of what a suite offers, as recorded.
fn name_of_record(suite: &str, arch: Arch) -> String {
    match arch {
        Arch::X86_64 => format!("suites/{suite}.json"),
        Arch::Arm64 => format!("suites/{suite}.arm64.json"),
    }
}

fn recorded(cache: &Cache, suite: &str, arch: Arch) -> Result<Option<Index>, Error> {
    let bytes = cache.recorded(&name_of_record(suite, arch))?;
    // A record that cannot be read, or holds less, was written by another version: made anew.
    let index: Option<Index> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(index.filter(|index| index.kept == resolve::KEPT))
}

fn record(cache: &Cache, root: &PrivateRoot<'_>, stop: &Stop) -> Result<Index, Error> {
    let targets = mirror::targets(stop)?;
    let sources = sources::sources_for(root.suite(), &targets).ok_or_else(no_mirror)?;
    let index = root.update(&sources, stop)?;
    let json = serde_json::to_vec_pretty(&index).unwrap_or_default();
    cache.record(&name_of_record(root.suite(), index.arch), &json)?;
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_suite_needs_neither_apt_nor_network() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        let index = Index::new(Arch::X86_64, 7, Vec::new(), Vec::new());
        cache
            .record("suites/nowhere.json", &serde_json::to_vec(&index).unwrap())
            .unwrap();
        let (suite, stop) = (Some("nowhere"), Stop::new());
        let archive = Archive::open(&cache, suite, Arch::X86_64, Freshness::Cached, &stop).unwrap();
        assert_eq!(archive.index(), &index);
        assert!(!cache.path("apt/nowhere").exists());
    }

    #[test]
    fn an_unreadable_record_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path(), &Stop::new()).unwrap();
        cache
            .record("suites/torn.json", b"{\"fetched_at\":")
            .unwrap();
        assert_eq!(recorded(&cache, "torn", Arch::X86_64).unwrap(), None);
    }
}
