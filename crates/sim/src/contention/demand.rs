//! Demand paging in virtual time: the waits of vCPUs that touch missing pages, and their rate together.
//!
//! The system is that of "Improve KVM + userfaultfd performance via KVM_EXIT_MEMORY_FAULTs on stage-2 faults" (kvm,
//! February 2024, v7): a guest whose memory is populated page by page, through userfaultfds with readers, or
//! by the vCPUs' own threads when the fault is an exit. `vcpu` and `reader` say step by step which functions of the
//! kernel are meant; `host` has the memory, the userfaultfd and the VM, which decide what becomes of each step; `shared`
//! has the lines, locks and queues that the threads contend for; `places` the CPUs of the threads; `costs` the figures of
//! a cost table. All that is computed about many vCPUs comes out of a run. `checks` has the properties of memory that
//! every run must keep, and the broken pagers that lack them.
//!
//! Not here: huge pages, starting and stopping, preemption, memory that lies on another socket, and clocks that go down
//! when many cores are busy.

mod calibrate;
mod checks;
mod costs;
mod host;
mod places;
mod reader;
mod run;
mod shared;
mod tolls;
mod turn;
mod vcpu;

use pagetoll_bill::spec::{Placement, Sharing, WhatIf};

pub use calibrate::{Calibration, Miss, calibrate, known_rate};
pub use checks::{Defect, Evidence, Property, Trials};
pub use costs::Factors;
pub use pagetoll_bill::route::sim::Demand as Mechanism;
pub use run::{DemandError, RunResult, TollTimes, run, run_broken};

/// The most vCPUs.
pub const MOST_VCPUS: u32 = 4096;

/// The most pages populated for each fault: those of a page table.
pub const MOST_BATCH: u32 = 512;

/// A guest, its pager, and the length of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Mechanism that resolves faults.
    pub mechanism: Mechanism,
    /// vCPUs, each with memory of its own.
    pub vcpus: u32,
    /// Readers of the userfaultfds, where the mechanism has any.
    pub readers: u32,
    /// One userfaultfd, or one for the memory of each vCPU, with at least a reader each.
    pub sharing: Sharing,
    /// Pages populated for each fault.
    pub batch: u32,
    /// Pages that each vCPU populates on average while it is counted; a few hundred in all at least.
    pub pages: u64,
    /// CPUs of readers: those of the vCPUs, or else those after them, as long as there are any.
    pub placement: Placement,
    /// Difference from the real system; one of another route does nothing here.
    pub what_if: Option<WhatIf>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Scenario {
    /// A scenario with as many readers as vCPUs, a page at a time, on the system as it is.
    #[must_use]
    pub const fn new(mechanism: Mechanism, vcpus: u32) -> Self {
        Self {
            mechanism,
            vcpus,
            readers: vcpus,
            sharing: Sharing::One,
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
            Mechanism::Uffd if self.readers < self.userfaultfds() => self.userfaultfds(),
            Mechanism::Uffd => self.readers,
            Mechanism::Populated
            | Mechanism::Kernel
            | Mechanism::Exit
            | Mechanism::ExitOnMissing => 0,
        }
    }

    /// Userfaultfds that there are.
    pub(crate) const fn userfaultfds(&self) -> u32 {
        match self.sharing {
            Sharing::One => 1,
            Sharing::PerVcpu => self.vcpus,
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
        if !(1..=MOST_BATCH).contains(&self.batch) {
            return Err(DemandError::Batch(self.batch));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
