//! Set-up of every vCPU before it runs: the target that KVM prefers here.

use kvm_bindings::kvm_vcpu_init;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::Error;

/// The preferred target, without optional features.
#[derive(Debug)]
pub(crate) struct Features(kvm_vcpu_init);

impl Features {
    /// The host's, for a new VM.
    pub(crate) fn new(_: &Kvm, vm: &VmFd) -> Result<Self, Error> {
        let mut init = kvm_vcpu_init::default();
        vm.get_preferred_target(&mut init)
            .map_err(Error::system("KVM_ARM_PREFERRED_TARGET"))?;
        Ok(Self(init))
    }

    pub(crate) fn give(&self, vcpu: &VcpuFd) -> Result<(), Error> {
        vcpu.vcpu_init(&self.0)
            .map_err(Error::system("KVM_ARM_VCPU_INIT"))
    }
}
