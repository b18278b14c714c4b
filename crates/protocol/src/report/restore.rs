//! Reports of `guests/restore-probe`.

use pagetoll_bill::route;
use serde::Deserialize;

/// A part of a restore, up to a boundary, and the guest's memory there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RestorePart {
    pub instructions: u64,
    /// Exits of the vCPU but for those at the ends of its programs.
    pub exits: u64,
    /// Switches between threads.
    pub switches: u64,
    /// Messages of the userfaultfd, or exits with EFAULT.
    pub faults: u64,
    /// Instructions in which pages were found that exits were about.
    pub finding: u64,
    /// Runs of pages that were populated, and instructions of reading them from the image.
    pub calls: u64,
    pub reading: u64,
    /// Instructions of installing them, where no thread was woken.
    pub installing: u64,
    /// Bytes of the guest's memory by smaps, hugetlb among them.
    pub rss: u64,
    pub pss: u64,
    /// Bytes of it that cannot be read from the image again.
    pub own: u64,
}

/// A restore of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Restore {
    #[serde(deserialize_with = "super::mechanism")]
    pub mechanism: route::lab::Restore,
    /// Pages that were copied at once at most.
    pub batch: u32,
    /// Pages of the image, and of the working set.
    pub pages: u64,
    pub set: u64,
    /// Until the first instruction; the working set after that; every other page after that.
    pub to_first: RestorePart,
    pub to_set: RestorePart,
    pub to_last: RestorePart,
    /// Pages that held something else on the host, and that the guest found so.
    pub wrong_on_host: u64,
    pub wrong_in_guest: u64,
    /// Parts of the visits, and those whose words had another sum.
    pub parts: u64,
    pub misread: u64,
}

/// A mechanism that this guest does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RestoreUnavailable {
    #[serde(deserialize_with = "super::mechanism")]
    pub mechanism: route::lab::Restore,
    pub batch: u32,
    /// The name of what is lacking.
    pub lacks: String,
}
