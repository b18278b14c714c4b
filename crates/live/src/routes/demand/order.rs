//! What a bill of this host's demand paging can be asked for.

use std::fmt;
use std::path::PathBuf;

use pagetoll_bill::{Limits, Order};
use pagetoll_units::Pages;

use super::beside;
use crate::LiveError;
use crate::pager::{Mode, Sharing, Waiting};

/// What an order may ask for. Pages are those of each vCPU; the batch is what a page table holds.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 18),
    batch: 512,
    runs: 100,
};

/// The most vCPUs.
pub const MOST_VCPUS: usize = 64;

/// The most reader threads.
pub const MOST_READERS: usize = 64;

/// What the guest's memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Private anonymous memory, in pages of 4 KiB.
    Anonymous,
    /// Shared memory (a memfd).
    Shmem,
    /// Private anonymous memory that asks for transparent huge pages (`MADV_HUGEPAGE`).
    Thp,
    /// hugetlb pages of 2 MiB.
    Hugetlb2m,
    /// hugetlb pages of 1 GiB.
    Hugetlb1g,
}

impl Memory {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Anonymous,
        Self::Shmem,
        Self::Thp,
        Self::Hugetlb2m,
        Self::Hugetlb1g,
    ];

    /// Its name in orders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Shmem => "shmem",
            Self::Thp => "thp",
            Self::Hugetlb2m => "hugetlb-2m",
            Self::Hugetlb1g => "hugetlb-1g",
        }
    }

    /// The page size that faults are resolved in, in bytes.
    #[must_use]
    pub const fn page_size(self) -> u64 {
        match self {
            Self::Anonymous | Self::Shmem | Self::Thp => 4096,
            Self::Hugetlb2m => 2 << 20,
            Self::Hugetlb1g => 1 << 30,
        }
    }

    /// Whether it is made of hugetlb pages.
    #[must_use]
    pub const fn is_hugetlb(self) -> bool {
        matches!(self, Self::Hugetlb2m | Self::Hugetlb1g)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the guest does with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Reads a word.
    Read,
    /// Writes a word.
    Write,
    /// Either, by the seed.
    Mixed,
}

/// In which order the guest touches pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// One after another.
    Sequential,
    /// Each once, in an order that the seed makes.
    Random,
}

/// The privilege that the guest's workload runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Kernel: as the kernel's own tests run. Hosts without hardware virtualisation emulate every instruction of it.
    Zero,
    /// User.
    Three,
}

impl Ring {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::Three => 3,
        }
    }
}

/// Where threads may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Wherever the scheduler wants them.
    None,
    /// Each vCPU on a CPU of its own, as far as there are any; readers anywhere.
    Vcpus,
    /// Readers on the CPUs of the vCPUs: wake-ups cross no CPU.
    Together,
    /// Readers on the CPUs after those of the vCPUs.
    Apart,
}

/// Everything that is asked of this host.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, batches, runs, and the pages of each vCPU.
    pub order: Order,
    /// Numbers of vCPUs, ascending.
    pub vcpus: Vec<usize>,
    /// Reader threads of `uffd`.
    pub readers: usize,
    /// How they wait.
    pub waiting: Waiting,
    /// One userfaultfd for all vCPUs, or one for each.
    pub sharing: Sharing,
    /// Missing faults, resolved by copying, or minor ones of shared memory.
    pub mode: Mode,
    /// What the guest's memory is made of.
    pub memory: Memory,
    /// What the guest does with a page.
    pub touch: Touch,
    /// In which order.
    pub sequence: Sequence,
    /// For random orders and mixed touches.
    pub seed: u64,
    /// The guest's privilege.
    pub ring: Ring,
    /// Where threads may run.
    pub pinning: Pinning,
    /// The kernel's own `demand_paging_test`, to be run beside this bench.
    pub beside: Option<PathBuf>,
    /// How it was ordered.
    pub command: String,
}

impl Request {
    /// Validates what [`Order`] does not know of, and sorts the numbers of vCPUs.
    ///
    /// # Errors
    /// A number is out of range, or two choices exclude each other.
    pub fn validated(mut self) -> Result<Self, LiveError> {
        self.vcpus.sort_unstable();
        self.vcpus.dedup();
        let range = |name: &str, given: usize, most: usize| match given {
            n if (1..=most).contains(&n) => Ok(()),
            n => Err(LiveError::BadOrder(format!(
                "{name} {n}: expected 1 to {most}"
            ))),
        };
        if self.vcpus.is_empty() {
            return Err(LiveError::BadOrder(
                "nothing ordered: --vcpus is empty".into(),
            ));
        }
        for vcpus in &self.vcpus {
            range("--vcpus", *vcpus, MOST_VCPUS)?;
        }
        range("--readers", self.readers, MOST_READERS)?;
        self.check_batches()?;
        self.check_memory()?;
        beside::check(&self)?;
        Ok(self)
    }

    fn check_batches(&self) -> Result<(), LiveError> {
        match self
            .order
            .batches
            .iter()
            .find(|batch| !batch.is_power_of_two())
        {
            Some(batch) => Err(LiveError::BadOrder(format!(
                "--batch {batch}: expected a power of two, as pages are brought in by aligned blocks"
            ))),
            None => Ok(()),
        }
    }

    fn check_memory(&self) -> Result<(), LiveError> {
        let bytes = self.order.pages.get() * 4096;
        let size = self.memory.page_size();
        if !bytes.is_multiple_of(size) {
            return Err(LiveError::BadOrder(format!(
                "--pages {}: expected a multiple of {} with --memory {}",
                self.order.pages.get(),
                size / 4096,
                self.memory
            )));
        }
        let private = matches!(self.memory, Memory::Anonymous | Memory::Thp);
        if self.mode == Mode::Minor && private {
            return Err(LiveError::BadOrder(format!(
                "--faults minor: needs a page cache; expected --memory shmem or hugetlb, not {}",
                self.memory
            )));
        }
        Ok(())
    }
}
