//! Kernels of a git repository's commits, compiled one after the other in one place: each compiles what differs from the one
//! before, as git-bisect(1) does in a tree of the user's own.
//!
//! The place has a fixed name, because kbuild writes paths into what it makes; it is new at the beginning and gone at the end.

use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::cache::{Lock, require_room};
use pagetoll_host::tools;

use crate::build::{BUILD_ROOM, KernelBuild, Order, Plan, remove};
use crate::error::FixError;
use crate::git::{Checkout, Commit, Repository};

/// Name of the work folder, relative to the cache.
const PLACE: &str = "fix/work/commits";
/// The files of a commit, beside what a build takes: 1.5 GiB for Linux 7.3.
const TREE_ROOM: u64 = 1600 << 20;

/// Builder of a repository's commits. It locks the work folder: another process waits.
pub struct Commits<'a> {
    order: Order,
    surroundings: Surroundings<'a>,
    checkout: Checkout,
    _working: Lock,
}

impl<'a> Commits<'a> {
    /// Prepares the work folder for commits of this repository, configured as `order` says; `order` names no source.
    ///
    /// # Errors
    /// [`Error::MissingTools`]; [`Error::NoSpace`]; [`Error::Stopped`] while another process compiles commits.
    pub fn new(
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
    /// Those of [`build`](crate::build::build) and of git.
    pub fn kernel(&self, commit: &Commit) -> Result<KernelBuild, FixError> {
        Plan::for_commit(&self.order, &self.checkout, commit, self.surroundings)?.base()
    }
}

impl Drop for Commits<'_> {
    fn drop(&mut self) {
        // The next one that begins here removes what is left.
        let _left: Result<(), Error> = remove(self.checkout.place());
    }
}
