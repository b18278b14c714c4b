//! Demand paging in virtual time: what vCPUs that touch missing pages wait for, and how fast they are together.
//!
//! The system is that of "Improve KVM + userfaultfd performance via KVM_EXIT_MEMORY_FAULTs on stage-2 faults" (kvm,
//! February 2024, v7): a guest whose memory is brought in page by page, through one userfaultfd with as many readers, or
//! by the vCPUs' own threads when the fault is an exit. `vcpu` and `reader` say step by step which functions of the
//! kernel are meant; `shared` which lines, locks and queues they contend for; `places` where threads are; `costs`
//! which figure of a host table is paid for what. All that is computed about many vCPUs comes out of a run.
//!
//! Not here: what memory holds and what is refused (no fault fails, no page is asked for twice), huge pages, starting
//! and stopping, preemption, memory that lies on another socket, and clocks that go down when many cores are busy.

mod calibrate;
mod costs;
mod places;
mod reader;
mod run;
mod shared;
mod tolls;
mod vcpu;

pub use calibrate::{Calibration, calibrate};
pub use costs::Factors;
pub use run::{DemandError, Ran, Spent, run};

/// The most vCPUs.
pub const MOST_VCPUS: u32 = 4096;

/// A way to bring a page in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The host has it already.
    Populated,
    /// The host's kernel fills it with zeroes.
    Kernel,
    /// A reader of a userfaultfd.
    Uffd,
    /// The vCPU's thread after an EFAULT that names no page: `UFFD_FEATURE_SIGBUS`.
    Exit,
    /// The vCPU's thread after a `KVM_EXIT_MEMORY_FAULT`: `KVM_MEM_EXIT_ON_MISSING`.
    ExitOnMissing,
}

impl Mechanism {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Populated,
        Self::Kernel,
        Self::Uffd,
        Self::Exit,
        Self::ExitOnMissing,
    ];

    /// Its name in orders and bills.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Populated => "populated",
            Self::Kernel => "kernel",
            Self::Uffd => "uffd",
            Self::Exit => "exit",
            Self::ExitOnMissing => "exit-on-missing",
        }
    }

    /// Whether it takes several pages at once.
    #[must_use]
    pub const fn is_batched(self) -> bool {
        !matches!(self, Self::Populated | Self::Kernel)
    }
}

/// Where readers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// On the CPUs after those of the vCPUs, as long as there are any.
    #[default]
    Apart,
    /// On the CPUs of the vCPUs.
    Together,
}

/// One thing in which a system differs from the real one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhatIf {
    /// None.
    #[default]
    Real,
    /// Looking at an entry of a wait queue costs nothing.
    NoWalks,
    /// The line of `mm_users` and `mmap_lock` is everywhere at once.
    MmUsersFree,
    /// Contended lines go to who has waited for longest.
    FifoLines,
}

impl WhatIf {
    /// Its name in orders.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::NoWalks => "no-walks",
            Self::MmUsersFree => "mm-users-free",
            Self::FifoLines => "fifo-lines",
        }
    }
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How pages are brought in.
    pub mechanism: Mechanism,
    /// vCPUs, each with memory of its own.
    pub vcpus: u32,
    /// Readers of the one userfaultfd, where the mechanism has any.
    pub readers: u32,
    /// Pages brought in for each fault.
    pub batch: u32,
    /// Pages that each vCPU brings in on average while it is counted; a few hundred in all at least.
    pub pages: u64,
    /// Where readers are.
    pub pinning: Pinning,
    /// What is different.
    pub what_if: WhatIf,
    /// Where randomness begins.
    pub seed: u64,
}

impl Scenario {
    /// As many readers as vCPUs, a page at a time, everything as it is.
    #[must_use]
    pub const fn new(mechanism: Mechanism, vcpus: u32) -> Self {
        Self {
            mechanism,
            vcpus,
            readers: vcpus,
            batch: 1,
            pages: 6,
            pinning: Pinning::Apart,
            what_if: WhatIf::Real,
            seed: 1,
        }
    }

    /// Readers that there are.
    pub(crate) const fn readers(&self) -> u32 {
        match self.mechanism {
            Mechanism::Uffd => self.readers,
            _ => 0,
        }
    }

    fn check(&self) -> Result<(), DemandError> {
        let threads = 1..=MOST_VCPUS;
        let has_readers = self.mechanism != Mechanism::Uffd || threads.contains(&self.readers);
        if !threads.contains(&self.vcpus) || !has_readers {
            return Err(DemandError::Threads(self.vcpus, self.readers));
        }
        if self.batch == 0 {
            return Err(DemandError::NoBatch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
