//! Commits of a git repository, each built where it is tried; the repository is not changed.

use std::path::Path;
use std::thread;

use anyhow::Result;
use pagetoll_backend::{Context, Error};
use pagetoll_bill::{Arch, Route};
use pagetoll_fix::build::Order;
use pagetoll_fix::commits::Commits as Builds;
use pagetoll_fix::git::{Commit, Repository};
use pagetoll_fix::spec::{NONE, Spec};
use pagetoll_fix::{Devices, Flavour};
use pagetoll_host::Surroundings;
use pagetoll_host::cache::Cache;
use pagetoll_images::apt::Freshness;

/// Digits of a commit's name that are printed.
const DIGITS: usize = 12;

/// Commits, and what builds them.
pub(super) struct Commits<'a> {
    commits: Vec<Commit>,
    builds: Builds<'a>,
}

impl<'a> Commits<'a> {
    pub(super) fn between(
        tree: &Path,
        [good, bad]: [&str; 2],
        route: Route,
        arch: Arch,
        cache: &'a Cache,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let Context { stop, progress } = *context;
        let repository = Repository::open(tree, cache, stop).map_err(Error::from)?;
        let commits = repository.between(good, bad, stop).map_err(Error::from)?;
        let order = Order {
            spec: Spec::linux(NONE, arch).map_err(Error::from)?,
            source: None,
            freshness: Freshness::Cached,
            jobs: thread::available_parallelism().map_or(1, usize::from),
            flavour: Flavour::Lab,
            devices: match route.is_vfio() {
                true => Devices::Vfio,
                false => Devices::Absent,
            },
        };
        let surroundings = Surroundings {
            cache,
            stop,
            progress,
        };
        let builds = Builds::new(repository, order, surroundings).map_err(Error::from)?;
        Ok(Self { commits, builds })
    }

    /// Names to print.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |commit: &Commit| format!("{} ({})", &commit.hash[..DIGITS], commit.subject);
        self.commits.iter().map(name).collect()
    }

    /// Builds the kernel of a commit, unless it was built before, as `--kernel` takes it.
    pub(super) fn kernel(&self, index: usize) -> Result<String> {
        let built = self
            .builds
            .kernel(&self.commits[index])
            .map_err(Error::from)?;
        Ok(built.kernel.image.display().to_string())
    }
}
