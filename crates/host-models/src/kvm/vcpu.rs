//! A vCPU: it enters the guest, and comes back when its access is done, needs user space, or fails.
//!
//! Source: `kvm_arch_vcpu_ioctl_run`, `vcpu_enter_guest`, `complete_emulated_mmio` of `arch/x86/kvm/x86.c`, Linux 6.18.

use pagetoll_units::Gpa;

use super::{FaultResult, MemoryFault, Vm};
use crate::mm::{Access, Mm};
use crate::userfaultfd::ThreadId;

/// Reason why `KVM_RUN` returned, or why it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The guest's access is done: the word that it read or wrote.
    Done(u64),
    /// `KVM_EXIT_MMIO`: the guest reads a word that user space has to say.
    MmioRead(Gpa),
    /// `KVM_EXIT_MMIO`: the guest wrote a word that user space has to keep.
    MmioWrite(Gpa, u64),
    /// `EFAULT`, and nothing more.
    Error,
    /// `EFAULT` with `KVM_EXIT_MEMORY_FAULT`.
    MemoryFault(MemoryFault),
    /// The thread sleeps; `KVM_RUN` has not returned.
    Sleeps,
}

/// A vCPU whose guest does one access of a word after the other.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu {
    thread: ThreadId,
    /// The guest's next access; `None` when it is done.
    next: Option<(Gpa, Access)>,
    /// Set once user space has been asked to do it.
    asked: bool,
}

impl Vcpu {
    /// A vCPU that this thread runs.
    #[must_use]
    pub const fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            next: None,
            asked: false,
        }
    }

    /// The guest's next access.
    pub fn begin(&mut self, gpa: Gpa, access: Access) {
        self.next = Some((gpa, access));
        self.asked = false;
    }

    /// `KVM_RUN`, with what user space put into `kvm_run.mmio.data`. `None` when the guest has nothing to do.
    pub fn run(&mut self, vm: &mut Vm, mm: &mut Mm, mmio_data: u64) -> Option<Exit> {
        let (gpa, access) = self.next?;
        if self.asked {
            self.next = None;
            return Some(Exit::Done(match access {
                Access::Read => mmio_data,
                Access::Write(word) => word,
            }));
        }
        Some(match vm.resolve(mm, self.thread, gpa, access) {
            FaultResult::Mapped => {
                self.next = None;
                vm.touch(mm, gpa, access).map_or(Exit::Error, Exit::Done)
            }
            FaultResult::Mmio => {
                self.asked = true;
                match access {
                    Access::Read => Exit::MmioRead(gpa),
                    Access::Write(word) => Exit::MmioWrite(gpa, word),
                }
            }
            FaultResult::Error => Exit::Error,
            FaultResult::MemoryFault(fault) => Exit::MemoryFault(fault),
            FaultResult::Sleeps => Exit::Sleeps,
        })
    }
}
