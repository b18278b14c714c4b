//! Calls on a VM.

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kvm_bindings::{
    kvm_create_guest_memfd, kvm_userspace_memory_region, kvm_userspace_memory_region2,
};
use kvm_ioctls::VmFd;
use pagetoll_conformance::kvm::{Answer, Binding, MemslotCall, Place};

/// `KVM_MEM_EXIT_ON_MISSING` of the exit-on-missing series (kvm@vger.kernel.org, 15 February 2024).
const EXIT_ON_MISSING: u32 = 1 << 3;
/// A descriptor that no process has.
const NO_FD: u32 = u32::MAX;

/// What later calls need of a VM's slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    gmems: BTreeMap<usize, OwnedFd>,
    /// Sizes by slot, from which the length of a dirty log follows.
    bytes: BTreeMap<u32, u64>,
}

type Result<T> = std::result::Result<T, kvm_ioctls::Error>;

impl Slots {
    pub(super) fn call(
        &mut self,
        vm: &VmFd,
        call: MemslotCall,
        at: Place,
        bytes: u64,
    ) -> Result<Answer> {
        match call {
            MemslotCall::Set(memslot) => {
                let region = kvm_userspace_memory_region {
                    slot: memslot.slot,
                    flags: memslot.flags,
                    guest_phys_addr: memslot.gpa,
                    memory_size: bytes,
                    userspace_addr: at.address(),
                };
                match memslot.binding {
                    None => set(vm, region)?,
                    Some(binding) => self.set2(vm, region, binding)?,
                }
                self.bytes.insert(memslot.slot, bytes);
                Ok(Answer::Done)
            }
            MemslotCall::CreateGmem { gmem, flags } => {
                let fd = vm.create_guest_memfd(kvm_create_guest_memfd {
                    size: bytes,
                    flags,
                    ..Default::default()
                })?;
                // SAFETY: a new descriptor, which has no other owner.
                self.gmems.insert(gmem, unsafe { OwnedFd::from_raw_fd(fd) });
                Ok(Answer::Done)
            }
            MemslotCall::CloseGmem { gmem } => {
                drop(self.gmems.remove(&gmem));
                Ok(Answer::Done)
            }
            MemslotCall::Dirty { slot } => self.dirty(vm, slot),
        }
    }

    fn set2(&self, vm: &VmFd, region: kvm_userspace_memory_region, binding: Binding) -> Result<()> {
        let fd = binding.gmem.and_then(|gmem| self.gmems.get(&gmem));
        let region = kvm_userspace_memory_region2 {
            slot: region.slot,
            flags: region.flags,
            guest_phys_addr: region.guest_phys_addr,
            memory_size: region.memory_size,
            userspace_addr: region.userspace_addr,
            guest_memfd_offset: binding.offset,
            guest_memfd: fd.map_or(NO_FD, |fd| fd.as_raw_fd().cast_unsigned()),
            ..Default::default()
        };
        // SAFETY: the memory is a case's, which outlives the VM and to which there are no references, or no memory at all.
        unsafe { vm.set_user_memory_region2(region) }
    }

    fn dirty(&self, vm: &VmFd, slot: u32) -> Result<Answer> {
        let bytes = self.bytes.get(&slot).copied().unwrap_or(1 << 21);
        let bitmap = vm.get_dirty_log(slot, usize::try_from(bytes).unwrap_or(0))?;
        let pages = (0..).zip(&bitmap).flat_map(|(index, word)| {
            let set = (0..64_u64).filter(move |bit| word >> bit & 1 != 0);
            set.map(move |bit| index * 64 + bit)
        });
        Ok(Answer::Dirty(pages.collect()))
    }
}

fn set(vm: &VmFd, region: kvm_userspace_memory_region) -> Result<()> {
    // SAFETY: as above.
    unsafe { vm.set_user_memory_region(region) }
}

/// Whether slots may ask for exits. The capability's number in the exit-on-missing series, 236, means another one by
/// now, so only the flag is tried.
pub(super) fn takes_exit_on_missing(vm: &VmFd) -> bool {
    let region = kvm_userspace_memory_region2 {
        flags: EXIT_ON_MISSING,
        memory_size: 4096,
        userspace_addr: Place::in_memory(0).address(),
        ..Default::default()
    };
    // SAFETY: this VM is never run.
    unsafe { vm.set_user_memory_region2(region) }.is_ok()
}
