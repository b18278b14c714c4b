//! Kernels of a git repository's commits, compiled one after the other in one place: each compiles what differs from the one
//! before, as git-bisect(1) does in a tree of the user's own.
//!
//! The place has a fixed name, because kbuild writes paths into what it makes; it is new at the beginning and gone at the end.

use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::cache::{Lock, require_room};
use pagetoll_host::tools;

use crate::build::{BUILD_ROOM, Built, Order, Plan, remove};
use crate::error::FixError;
use crate::git::{Checkout, Commit, Repository};

/// Below the cache.
const PLACE: &str = "fix/work/commits";
/// The files of a commit, beside what a build takes: 1.5 GiB for Linux 7.3.
const TREE_ROOM: u64 = 1600 << 20;

/// Where commits of a repository are compiled. Another process that wants to do so waits.
pub struct Commits<'a> {
    order: Order,
    surroundings: Surroundings<'a>,
    checkout: Checkout,
    _working: Lock,
}

impl<'a> Commits<'a> {
    /// Commits of this repository, configured as an order says that names no source.
    ///
    /// # Errors
    /// [`Error::MissingTools`]; [`Error::NoSpace`]; [`Error::Stopped`] while another process compiles commits.
    pub fn of(
        repository: Repository,
        order: Order,
        surroundings: Surroundings<'a>,
    ) -> Result<Self, FixError> {
        tools::check_kernel_build(order.spec.arch())?;
        let Surroundings { cache, stop, .. } = surroundings;
        let working = cache.lock(PLACE, stop)?;
        remove(&cache.path(PLACE))?;
        let place = cache.folder(PLACE)?;
        require_room(&place, TREE_ROOM + BUILD_ROOM, "build commits of a kernel")?;
        Ok(Self {
            order,
            surroundings,
            checkout: Checkout::new(repository, &place),
            _working: working,
        })
    }

    /// The kernel of a commit, compiled unless it is in the cache.
    ///
    /// # Errors
    /// As [`build`](crate::build::build); those of git.
    pub fn kernel(&self, commit: &Commit) -> Result<Built, FixError> {
        Plan::of_commit(&self.order, &self.checkout, commit, self.surroundings)?.base()
    }
}

impl Drop for Commits<'_> {
    fn drop(&mut self) {
        // The next one that begins here removes what is left.
        let _left: Result<(), Error> = remove(self.checkout.place());
    }
}
