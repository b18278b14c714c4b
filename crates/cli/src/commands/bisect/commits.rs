//! Commits of a git repository, each built where it is tried; the repository is not changed.

use std::path::Path;
use std::thread;

use anyhow::Result;
use pagetoll_backend::{Context, Error};
use pagetoll_bill::Arch;
use pagetoll_fix::Flavour;
use pagetoll_fix::build::{self, Order};
use pagetoll_fix::git::{self, Checkout, Commit};
use pagetoll_fix::spec::{NONE, Spec};
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::cache::{Cache, Scratch};

/// Digits of a commit's name that are printed.
const DIGITS: usize = 12;

/// Commits, and the place where they are built from.
pub(super) struct Commits<'a> {
    commits: Vec<Commit>,
    checkout: Checkout,
    arch: Arch,
    context: &'a Context<'a>,
    cache: Cache,
    _place: Scratch,
}

impl<'a> Commits<'a> {
    pub(super) fn between(
        tree: &Path,
        [good, bad]: [&str; 2],
        arch: Arch,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let commits = git::between(tree, good, bad, context.stop).map_err(Error::from)?;
        let cache = Cache::open(context.stop).map_err(Error::from)?;
        let place = cache.scratch();
        let checkout = Checkout::new(tree, place.create_dir().map_err(Error::from)?);
        Ok(Self {
            commits,
            checkout,
            arch,
            context,
            cache,
            _place: place,
        })
    }

    /// As they are printed.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |commit: &Commit| format!("{} ({})", &commit.hash[..DIGITS], commit.subject);
        self.commits.iter().map(name).collect()
    }

    /// Builds the kernel of a commit, unless it was built before, as `--kernel` takes it.
    pub(super) fn kernel(&self, index: usize) -> Result<String> {
        let Context { stop, progress } = *self.context;
        let source = self
            .checkout
            .switch(&self.commits[index], stop)
            .map_err(Error::from)?;
        let order = Order {
            spec: Spec::of_linux(NONE, self.arch).map_err(Error::from)?,
            source: Some(source),
            freshness: Freshness::Cached,
            jobs: thread::available_parallelism().map_or(1, usize::from),
            flavour: Flavour::Lab,
        };
        let surroundings = Surroundings {
            cache: &self.cache,
            stop,
            progress,
        };
        let built = build::build_alone(&order, &surroundings).map_err(Error::from)?;
        Ok(built.kernel.image.display().to_string())
    }
}
