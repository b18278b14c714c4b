//! What every vCPU is given before it runs: CPUID.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::LiveError;

/// Every feature of CPUID that KVM supports here.
#[derive(Debug)]
pub(crate) struct Features(CpuId);

impl Features {
    /// Those of this host, for a new VM.
    pub(crate) fn of(kvm: &Kvm, vm: &VmFd) -> Result<Self, LiveError> {
        // Intel without unrestricted guests needs three pages that the guest does not use (KVM api.rst, 4.36).
        vm.set_tss_address(0xfffb_d000)
            .map_err(LiveError::system("KVM_SET_TSS_ADDR"))?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        cpuid
            .map(Self)
            .map_err(LiveError::system("KVM_GET_SUPPORTED_CPUID"))
    }

    pub(crate) fn give(&self, vcpu: &VcpuFd) -> Result<(), LiveError> {
        vcpu.set_cpuid2(&self.0)
            .map_err(LiveError::system("KVM_SET_CPUID2"))
    }
}
