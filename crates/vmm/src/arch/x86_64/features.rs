//! Set-up of every vCPU before it runs: CPUID.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::Error;

/// Every feature of CPUID that KVM supports here.
#[derive(Debug)]
pub(crate) struct Features(CpuId);

impl Features {
    /// The host's, for a new VM.
    pub(crate) fn new(kvm: &Kvm, vm: &VmFd) -> Result<Self, Error> {
        // Intel without unrestricted guests needs three pages that the guest does not use (KVM api.rst, 4.36).
        vm.set_tss_address(0xfffb_d000)
            .map_err(Error::system("KVM_SET_TSS_ADDR"))?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        cpuid
            .map(Self)
            .map_err(Error::system("KVM_GET_SUPPORTED_CPUID"))
    }

    pub(crate) fn give(&self, vcpu: &VcpuFd) -> Result<(), Error> {
        vcpu.set_cpuid2(&self.0)
            .map_err(Error::system("KVM_SET_CPUID2"))
    }
}
