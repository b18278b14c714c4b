//! Stage 2: guest frames to pages of the process, filled fault by fault.
//!
//! | here | in Linux 6.18 |
//! |---|---|
//! | [`Vm::resolve`] | `kvm_mmu_do_page_fault`, `kvm_mmu_faultin_pfn` of `arch/x86/kvm/mmu/mmu.c` |
//! | `no_slot` | `kvm_handle_noslot_fault`; read-only slots by `KVM_PFN_ERR_RO_FAULT` |
//! | `take_from_gmem` | `kvm_mmu_faultin_pfn_gmem` |
//! | `take_from_process` | `__kvm_faultin_pfn`, `hva_to_pfn_slow`: first without sleeping, then with |
//! | `on_missing` | the exit-on-missing series: `atomic` set, `async` not; `hva_to_pfn_fast` alone |
//! | `map` | `make_spte`, `mark_page_dirty_in_slot` |
//! | [`Translation::serial`] | the MMU notifier: what the process has changed is looked up again |

use pagetoll_units::{Gfn, Gpa, Hva};

use super::{GmemId, Memslot, SlotFlags, Vm};
use crate::mm::{Access, AccessResult, Mm, PAGE_SIZE, Pte, PteTarget};
use crate::userfaultfd::ThreadId;

/// `kvm_run.memory_fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// Start of the range that could not be mapped.
    pub gpa: Gpa,
    /// Its bytes.
    pub size: u64,
    /// `KVM_MEMORY_EXIT_FLAG_*`: none today; with the exit-on-missing series [`Self::READ`] or [`Self::WRITE`].
    pub flags: u64,
}

impl MemoryFault {
    /// `KVM_MEMORY_EXIT_FLAG_READ` of the exit-on-missing series.
    pub const READ: u64 = 1 << 0;
    /// `KVM_MEMORY_EXIT_FLAG_WRITE` of the exit-on-missing series.
    pub const WRITE: u64 = 1 << 1;
    /// `KVM_MEMORY_EXIT_FLAG_EXEC` of the exit-on-missing series. No access of this model fetches instructions.
    pub const EXEC: u64 = 1 << 2;
}

/// Target of a stage-2 entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A page of the process.
    Process(Hva),
    /// A page of a guest_memfd.
    Gmem(GmemId, u64),
}

/// A stage-2 entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) target: Target,
    pub(super) writable: bool,
    /// Serial number of the process's entry when this was made.
    pub(super) serial: u64,
}

/// Result of a stage-2 fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultResult {
    /// Stage 2 leads to a page.
    Mapped,
    /// No memslot: the access is emulated, by user space since no device in the kernel claims it.
    Mmio,
    /// `KVM_RUN` returns `EFAULT`, and says nothing more (exit reason 0).
    Error,
    /// `KVM_RUN` returns `EFAULT` with `KVM_EXIT_MEMORY_FAULT`.
    MemoryFault(MemoryFault),
    /// The vCPU's thread sleeps in a userfaultfd's queue.
    Sleeps,
}

impl Vm {
    /// A vCPU, run by a thread of the process, touches an address.
    pub(super) fn resolve(
        &mut self,
        mm: &mut Mm,
        thread: ThreadId,
        gpa: Gpa,
        access: Access,
    ) -> FaultResult {
        let gfn = gpa.gfn();
        if self.is_mapped(mm, gfn, access) {
            return FaultResult::Mapped;
        }
        let Some((_, slot)) = self.slot(gfn) else {
            return FaultResult::Mmio;
        };
        let slot = slot.clone();
        if let Some((gmem, first)) = self.gmem_only(&slot) {
            return self.take_from_gmem(gfn, gmem, first + gfn.0 - slot.base_gfn.0);
        }
        if access.is_write() && slot.flags.contains(SlotFlags::READONLY) {
            return FaultResult::Mmio;
        }
        match slot.flags.contains(SlotFlags::EXIT_ON_MISSING) {
            true => self.on_missing(mm, gfn, &slot, access),
            false => self.take_from_process(mm, thread, gfn, &slot, access),
        }
    }

    fn is_mapped(&self, mm: &Mm, gfn: Gfn, access: Access) -> bool {
        self.stage2.get(gfn.0).is_some_and(|entry| {
            let fresh = match entry.target {
                Target::Process(hva) => mm.pte(hva).is_some_and(|pte| pte.serial == entry.serial),
                Target::Gmem(..) => true,
            };
            fresh && (entry.writable || !access.is_write())
        })
    }

    fn take_from_gmem(&mut self, gfn: Gfn, gmem: GmemId, index: u64) -> FaultResult {
        if self.gmem_page(gmem, index).is_none() {
            return FaultResult::MemoryFault(MemoryFault {
                gpa: gfn.gpa(),
                size: PAGE_SIZE,
                flags: 0,
            });
        }
        let entry = Translation {
            target: Target::Gmem(gmem, index),
            writable: true,
            serial: 0,
        };
        self.stage2.set(gfn.0, entry);
        FaultResult::Mapped
    }

    fn take_from_process(
        &mut self,
        mm: &mut Mm,
        thread: ThreadId,
        gfn: Gfn,
        slot: &Memslot,
        access: Access,
    ) -> FaultResult {
        let hva = slot.hva(gfn);
        match mm.fault_in_or_sleep(thread, hva, access) {
            AccessResult::Sleeps => FaultResult::Sleeps,
            AccessResult::Error => self.refused(gfn, access),
            AccessResult::Done(_) => match mm.pte(hva).copied() {
                Some(pte) => self.map(gfn, slot, pte, access),
                None => self.refused(gfn, access),
            },
        }
    }

    /// Takes the page only if the process could write to it as it is: neither a missing page, nor one that is
    /// protected, nor the page of zeroes (`get_user_page_fast_only` with `FOLL_WRITE`, for reads, too).
    fn on_missing(&mut self, mm: &Mm, gfn: Gfn, slot: &Memslot, access: Access) -> FaultResult {
        let hva = slot.hva(gfn);
        match mm.pte(hva).copied() {
            Some(pte) if pte.writable && pte.mapped != PteTarget::Zero => {
                self.map(gfn, slot, pte, access)
            }
            _ => self.refused(gfn, access),
        }
    }

    /// `EFAULT`, which the exit-on-missing series gives an address.
    fn refused(&self, gfn: Gfn, access: Access) -> FaultResult {
        if !self.capabilities.exit_on_missing {
            return FaultResult::Error;
        }
        FaultResult::MemoryFault(MemoryFault {
            gpa: gfn.gpa(),
            size: PAGE_SIZE,
            flags: match access {
                Access::Read => MemoryFault::READ,
                Access::Write(_) => MemoryFault::WRITE,
            },
        })
    }

    /// A page that could be written to is mapped so, and counts as dirty, even if it was only read, where the processor's
    /// KVM logs such reads.
    fn map(&mut self, gfn: Gfn, slot: &Memslot, pte: Pte, access: Access) -> FaultResult {
        let as_logged = !slot.flags.contains(SlotFlags::LOG_DIRTY_PAGES)
            || access.is_write()
            || self.capabilities.processor.logs_reads();
        let writable = pte.writable && as_logged && !slot.flags.contains(SlotFlags::READONLY);
        let entry = Translation {
            target: Target::Process(slot.hva(gfn)),
            writable,
            serial: pte.serial,
        };
        self.stage2.set(gfn.0, entry);
        if writable {
            self.mark_dirty(gfn);
        }
        FaultResult::Mapped
    }

    /// Reads or writes through an entry that allows it.
    pub(super) fn touch(&mut self, mm: &mut Mm, gpa: Gpa, access: Access) -> Option<u64> {
        let entry = *self.stage2.get(gpa.gfn().0)?;
        let offset = gpa.0 % PAGE_SIZE;
        match entry.target {
            Target::Process(hva) => mm.touch(Hva(hva.0 + offset), access),
            Target::Gmem(gmem, index) => {
                let mut page = self.gmem_page(gmem, index)?;
                let Access::Write(word) = access else {
                    return Some(if offset == 0 { page.first } else { page.rest });
                };
                page.first = word;
                self.guest_memfds.get_mut(gmem.0)?.pages.set(index, page);
                Some(word)
            }
        }
    }

    /// `kvm_arch_flush_shadow_memslot`.
    pub(super) fn zap_slot(&mut self, slot: &Memslot) {
        self.stage2.retain(|gfn, _| !slot.holds(Gfn(gfn)));
    }

    /// `kvm_mmu_slot_remove_write_access`.
    pub(super) fn write_protect_slot(&mut self, slot: &Memslot) {
        for (gfn, entry) in self.stage2.iter_mut() {
            entry.writable &= !slot.holds(Gfn(gfn));
        }
    }

    pub(super) fn write_protect(&mut self, gfn: Gfn) {
        if let Some(entry) = self.stage2.get_mut(gfn.0) {
            entry.writable = false;
        }
    }
}
