//! Memslots: which guest physical addresses are memory, and where in the process that memory is.
//!
//! | here | in `virt/kvm/kvm_main.c` |
//! |---|---|
//! | [`Vm::set_user_memory_region`] | `kvm_vm_ioctl`, `kvm_vm_ioctl_set_memory_region` |
//! | `check` | `check_memory_region_flags`, the first part of `kvm_set_memory_region` |
//! | `change` | its second part, `kvm_check_memslot_overlap`, `kvm_prepare_memory_region` |
//! | `bind` | `kvm_gmem_bind` of `virt/kvm/guest_memfd.c` |
//! | [`Vm::dirty_log`] | `kvm_get_dirty_log_protect` |

use std::collections::BTreeSet;

use pagetoll_units::{Gfn, Gpa, Hva};

use super::{GmemFlags, GmemId, Vm};
use crate::Errno;
use crate::mm::{PAGE_SIZE, TASK_SIZE};

/// `KVM_MEM_MAX_NR_PAGES`.
const MAX_PAGES: u64 = (1 << 31) - 1;
/// `kvm_arch_nr_memslot_as_ids`: a second one is that of system management mode, which these VMs do without.
const ADDRESS_SPACES: u32 = 1;

bitflags::bitflags! {
    /// `KVM_MEM_*` of include/uapi/linux/kvm.h.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SlotFlags: u32 {
        /// Writes are remembered, page by page.
        const LOG_DIRTY_PAGES = 1 << 0;
        /// Writes are exits.
        const READONLY = 1 << 1;
        /// Pages come from a guest_memfd.
        const GUEST_MEMFD = 1 << 2;
        /// Faults that need a fault of the process are exits; only with `KVM_CAP_EXIT_ON_MISSING`.
        const EXIT_ON_MISSING = 1 << 3;
    }
}

/// `struct kvm_userspace_memory_region`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The slot's number; the address space in its upper half.
    pub slot: u32,
    /// Flags of the slot.
    pub flags: SlotFlags,
    /// Address of the slot in the guest.
    pub guest_phys_addr: Gpa,
    /// Bytes; none deletes the slot.
    pub memory_size: u64,
    /// Address of the slot in the process.
    pub userspace_addr: Hva,
}

/// Fields that `KVM_SET_USER_MEMORY_REGION2` has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `guest_memfd`; `None` for a descriptor that there is not.
    pub gmem: Option<GmemId>,
    /// `guest_memfd_offset`, in bytes.
    pub offset: u64,
}

/// A slot: `struct kvm_memory_slot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memslot {
    /// Its first frame.
    pub base_gfn: Gfn,
    /// Pages.
    pub npages: u64,
    /// Flags of the slot.
    pub flags: SlotFlags,
    /// Address of the slot in the process.
    pub userspace_addr: Hva,
    /// The guest_memfd that it is bound to, and its first page there.
    pub gmem: Option<(GmemId, u64)>,
    /// Frames that were written to, counted from its first, where that is remembered.
    pub(super) dirty: Option<BTreeSet<u64>>,
}

impl Memslot {
    /// Returns whether the slot holds a frame.
    #[must_use]
    pub const fn holds(&self, gfn: Gfn) -> bool {
        self.base_gfn.0 <= gfn.0 && gfn.0 - self.base_gfn.0 < self.npages
    }

    /// Address of a frame in the process: `__gfn_to_hva_memslot`.
    #[must_use]
    pub const fn hva(&self, gfn: Gfn) -> Hva {
        Hva(self.userspace_addr.0 + (gfn.0 - self.base_gfn.0) * PAGE_SIZE)
    }
}

impl Vm {
    /// `KVM_SET_USER_MEMORY_REGION`, or with a binding `KVM_SET_USER_MEMORY_REGION2`: creates, moves, changes the flags
    /// of, or deletes a slot.
    ///
    /// # Errors
    /// `EINVAL` for an invalid region or one that cannot be changed, `EEXIST` for addresses that another slot has,
    /// `EBADF` for a guest_memfd that does not exist. Nothing has changed then.
    pub fn set_user_memory_region(
        &mut self,
        region: Region,
        binding: Option<Binding>,
    ) -> Result<(), Errno> {
        let flags = region.flags;
        if binding.is_none() && flags.contains(SlotFlags::GUEST_MEMFD) {
            return Err(Errno::Inval);
        }
        self.check(region, binding)?;
        let old = self.slots.get(&region.slot).cloned();
        if region.memory_size == 0 {
            let old = old.ok_or(Errno::Inval)?;
            self.slots.remove(&region.slot);
            self.zap_slot(&old);
            return Ok(());
        }
        self.change(region, old, binding)
    }

    fn check(&self, region: Region, binding: Option<Binding>) -> Result<(), Errno> {
        let Region { flags, .. } = region;
        let gmem = flags.contains(SlotFlags::GUEST_MEMFD);
        // The series' rule: a guest that may not write would exit for ever.
        let exits_for_ever = flags.contains(SlotFlags::EXIT_ON_MISSING | SlotFlags::READONLY);
        if !self.valid_flags(gmem).contains(flags) || exits_for_ever {
            return Err(Errno::Inval);
        }
        let (gpa, size, hva) = (
            region.guest_phys_addr.0,
            region.memory_size,
            region.userspace_addr.0,
        );
        let unaligned = |at: u64| !at.is_multiple_of(PAGE_SIZE);
        if unaligned(size) || unaligned(gpa) || unaligned(hva) {
            return Err(Errno::Inval);
        }
        // access_ok.
        if size > TASK_SIZE || hva > TASK_SIZE - size {
            return Err(Errno::Inval);
        }
        let misplaced = |at: Binding| unaligned(at.offset) || at.offset.checked_add(size).is_none();
        if gmem && binding.is_some_and(misplaced) {
            return Err(Errno::Inval);
        }
        self.check_number(region.slot)?;
        if gpa.checked_add(size).is_none() || size / PAGE_SIZE > MAX_PAGES {
            return Err(Errno::Inval);
        }
        Ok(())
    }

    fn check_number(&self, slot: u32) -> Result<(), Errno> {
        let (address_space, id) = (slot >> 16, slot & 0xffff);
        match address_space < ADDRESS_SPACES && id < self.capabilities.processor.user_mem_slots() {
            true => Ok(()),
            false => Err(Errno::Inval),
        }
    }

    fn valid_flags(&self, gmem: bool) -> SlotFlags {
        let missing = match self.capabilities.exit_on_missing {
            true => SlotFlags::EXIT_ON_MISSING,
            false => SlotFlags::empty(),
        };
        // Neither logging nor read-only slots go with a guest_memfd.
        let rest = match gmem {
            true => SlotFlags::GUEST_MEMFD,
            false => SlotFlags::LOG_DIRTY_PAGES | SlotFlags::READONLY,
        };
        missing | rest
    }

    fn change(
        &mut self,
        region: Region,
        old: Option<Memslot>,
        binding: Option<Binding>,
    ) -> Result<(), Errno> {
        let (base_gfn, npages) = (region.guest_phys_addr.gfn(), region.memory_size / PAGE_SIZE);
        if let Some(old) = &old {
            const FIXED: SlotFlags = SlotFlags::READONLY.union(SlotFlags::GUEST_MEMFD);
            // Slots on a guest_memfd can only be deleted.
            let fixed = region.flags.contains(SlotFlags::GUEST_MEMFD)
                || region.userspace_addr != old.userspace_addr
                || npages != old.npages
                || (region.flags ^ old.flags).intersects(FIXED);
            if fixed {
                return Err(Errno::Inval);
            }
            if base_gfn == old.base_gfn && region.flags == old.flags {
                return Ok(());
            }
        }
        let stays = old.as_ref().is_some_and(|old| old.base_gfn == base_gfn);
        if !stays {
            self.check_free(region.slot, base_gfn, npages)?;
        }
        let gmem = match (region.flags.contains(SlotFlags::GUEST_MEMFD), binding) {
            (true, Some(binding)) => Some(self.bind(binding, region.memory_size)?),
            _ => None,
        };
        let logs = region.flags.contains(SlotFlags::LOG_DIRTY_PAGES);
        let before = old.as_ref().and_then(|old| old.dirty.clone());
        let new = Memslot {
            base_gfn,
            npages,
            flags: region.flags,
            userspace_addr: region.userspace_addr,
            gmem,
            dirty: logs.then(|| before.clone().unwrap_or_default()),
        };
        match old {
            Some(old) if !stays => self.zap_slot(&old),
            Some(_) if logs && before.is_none() => self.write_protect_slot(&new),
            _ => {}
        }
        self.slots.insert(region.slot, new);
        Ok(())
    }

    /// Refuses frames of another slot, and frames that no guest can have.
    fn check_free(&self, id: u32, base_gfn: Gfn, npages: u64) -> Result<(), Errno> {
        let overlaps = |(other, slot): (&u32, &Memslot)| {
            *other != id
                && slot.base_gfn.0 < base_gfn.0 + npages
                && base_gfn.0 < slot.base_gfn.0 + slot.npages
        };
        if self.slots.iter().any(overlaps) {
            return Err(Errno::Exist);
        }
        self.capabilities.processor.check_frames(base_gfn, npages)
    }

    fn bind(&self, binding: Binding, size: u64) -> Result<(GmemId, u64), Errno> {
        let gmem = binding.gmem.ok_or(Errno::BadF)?;
        let found = self.guest_memfds.get(gmem.0).ok_or(Errno::BadF)?;
        if !found.open {
            return Err(Errno::BadF);
        }
        let (start, pages) = (binding.offset / PAGE_SIZE, size / PAGE_SIZE);
        let overlaps = |slot: &Memslot| match slot.gmem {
            Some((other, first)) => {
                other == gmem && first < start + pages && start < first + slot.npages
            }
            None => false,
        };
        if binding.offset + size > found.size {
            return Err(Errno::Inval);
        }
        match (
            self.slots.values().any(overlaps),
            self.capabilities.taken_page_exists,
        ) {
            (false, _) => Ok((gmem, start)),
            (true, true) => Err(Errno::Exist),
            (true, false) => Err(Errno::Inval),
        }
    }

    /// The guest_memfd that a slot takes all its pages from, if there is one: `kvm_memslot_gmem_only`.
    pub(super) fn gmem_only(&self, slot: &Memslot) -> Option<(GmemId, u64)> {
        let (gmem, first) = slot.gmem?;
        let flags = self.guest_memfds.get(gmem.0)?.flags;
        flags.contains(GmemFlags::MMAP).then_some((gmem, first))
    }

    /// The slot that holds a frame, and its number.
    pub(super) fn slot(&self, gfn: Gfn) -> Option<(u32, &Memslot)> {
        let mut slots = self.slots.iter();
        slots
            .find(|(_, slot)| slot.holds(gfn))
            .map(|(id, slot)| (*id, slot))
    }

    pub(super) fn mark_dirty(&mut self, gfn: Gfn) {
        let slot = self.slots.values_mut().find(|slot| slot.holds(gfn));
        if let Some(slot) = slot
            && let Some(dirty) = &mut slot.dirty
        {
            dirty.insert(gfn.0 - slot.base_gfn.0);
        }
    }

    /// `KVM_GET_DIRTY_LOG`: the pages of a slot that may have been written to since this was last asked, counted from
    /// its first.
    ///
    /// # Errors
    /// `EINVAL` for a number that no slot can have, `ENOENT` for a slot that is not there or keeps no log.
    pub fn dirty_log(&mut self, slot: u32) -> Result<Vec<u64>, Errno> {
        self.check_number(slot)?;
        let found = self.slots.get_mut(&slot).ok_or(Errno::NoEnt)?;
        let dirty = found.dirty.as_mut().ok_or(Errno::NoEnt)?;
        let pages: Vec<u64> = std::mem::take(dirty).into_iter().collect();
        let base = found.base_gfn.0;
        for page in &pages {
            self.write_protect(Gfn(base + page));
        }
        Ok(pages)
    }
}
