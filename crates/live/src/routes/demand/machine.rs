//! A VM with the guest's memory, and its vCPUs.

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use super::backing::Backing;
use crate::LiveError;
use crate::host;

/// A VM. It keeps its memory as long as it lives.
#[derive(Debug)]
pub(super) struct Machine {
    // Dropped before the memory that it uses.
    pub(super) vm: VmFd,
    cpuid: CpuId,
    pub(super) backing: Backing,
}

/// Which regions become memslots at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    /// All.
    All,
    /// Only the guest's own; what is paged gets slots of its own.
    Boot,
}

impl Machine {
    /// A VM over this memory; slot 0 is the guest's own, slot 1 what is paged.
    pub(super) fn new(backing: Backing, slots: Slots) -> Result<Self, LiveError> {
        let kvm = host::open_kvm()?;
        let vm = kvm
            .create_vm()
            .map_err(LiveError::system("KVM_CREATE_VM"))?;
        // Intel without unrestricted guests needs three pages that the guest does not use (KVM api.rst, 4.36).
        vm.set_tss_address(0xfffb_d000)
            .map_err(LiveError::system("KVM_SET_TSS_ADDR"))?;
        let machine = Self {
            cpuid: cpuid(&kvm)?,
            vm,
            backing,
        };
        for (slot, (guest, bytes, host)) in (0..).zip(machine.backing.regions()) {
            if slot == 0 || slots == Slots::All {
                machine.set_slot(slot, (guest.0, bytes, host))?;
            }
        }
        Ok(machine)
    }

    /// Makes a memslot of a guest address, a length and an address of this process.
    pub(super) fn set_slot(
        &self,
        slot: u32,
        (guest_phys_addr, memory_size, userspace_addr): (u64, u64, u64),
    ) -> Result<(), LiveError> {
        let region = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr,
            memory_size,
            userspace_addr,
        };
        // SAFETY: the address is of `backing`, which outlives the VM; nobody holds references into guest memory.
        let set = unsafe { self.vm.set_user_memory_region(region) };
        set.map_err(LiveError::system(format!(
            "KVM_SET_USER_MEMORY_REGION of slot {slot}"
        )))
    }

    /// A new vCPU.
    pub(super) fn vcpu(&self, number: usize) -> Result<VcpuFd, LiveError> {
        let vcpu = self.vm.create_vcpu(number as u64);
        let vcpu = vcpu.map_err(LiveError::system(format!("KVM_CREATE_VCPU {number}")))?;
        vcpu.set_cpuid2(&self.cpuid)
            .map_err(LiveError::system("KVM_SET_CPUID2"))?;
        Ok(vcpu)
    }
}

fn cpuid(kvm: &Kvm) -> Result<CpuId, LiveError> {
    kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(LiveError::system("KVM_GET_SUPPORTED_CPUID"))
}
