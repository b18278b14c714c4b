//! Demand paging in virtual time: what vCPUs that touch missing pages wait for, and how fast they are together.
//!
//! The system is that of "Improve KVM + userfaultfd performance via KVM_EXIT_MEMORY_FAULTs on stage-2 faults" (kvm,
//! February 2024, v7): a guest whose memory is populated page by page, through one userfaultfd with as many readers, or
//! by the vCPUs' own threads when the fault is an exit. `vcpu` and `reader` say step by step which functions of the
//! kernel are meant; `shared` which lines, locks and queues they contend for; `places` where threads are; `costs`
//! which figure of a cost table is paid for what. All that is computed about many vCPUs comes out of a run.
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

use pagetoll_bill::route::Demand;
use pagetoll_bill::spec::{Placement, WhatIf};

pub use calibrate::{Calibration, Miss, calibrate};
pub use costs::Factors;
pub use run::{DemandError, Ran, Spent, run};

/// The most vCPUs.
pub const MOST_VCPUS: u32 = 4096;

/// A way to resolve a fault.
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
    /// The model of a mechanism; `None` where it is not modelled.
    #[must_use]
    pub const fn of(mechanism: Demand) -> Option<Self> {
        match mechanism {
            Demand::Populated => Some(Self::Populated),
            Demand::Kernel => Some(Self::Kernel),
            Demand::Uffd => Some(Self::Uffd),
            Demand::Exit => Some(Self::Exit),
            Demand::ExitOnMissing => Some(Self::ExitOnMissing),
            Demand::ExitPrefault | Demand::ExitGmem => None,
        }
    }

    /// The mechanism that it models.
    #[must_use]
    pub const fn models(self) -> Demand {
        match self {
            Self::Populated => Demand::Populated,
            Self::Kernel => Demand::Kernel,
            Self::Uffd => Demand::Uffd,
            Self::Exit => Demand::Exit,
            Self::ExitOnMissing => Demand::ExitOnMissing,
        }
    }
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How faults are resolved.
    pub mechanism: Mechanism,
    /// vCPUs, each with memory of its own.
    pub vcpus: u32,
    /// Readers of the one userfaultfd, where the mechanism has any.
    pub readers: u32,
    /// Pages populated for each fault.
    pub batch: u32,
    /// Pages that each vCPU populates on average while it is counted; a few hundred in all at least.
    pub pages: u64,
    /// Where readers are: on the CPUs of the vCPUs, or else on those after them, as long as there are any.
    pub placement: Placement,
    /// What differs from the real system; what other routes have does nothing here.
    pub what_if: Option<WhatIf>,
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
            placement: Placement::Apart,
            what_if: None,
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
            return Err(DemandError::Threads {
                vcpus: self.vcpus,
                readers: self.readers,
            });
        }
        if self.batch == 0 {
            return Err(DemandError::NoBatch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
