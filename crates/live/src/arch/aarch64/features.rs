//! What every vCPU is given before it runs: the target that KVM prefers here.

use kvm_bindings::kvm_vcpu_init;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::LiveError;

/// The preferred target, without optional features.
#[derive(Debug)]
pub(crate) struct Features(kvm_vcpu_init);

impl Features {
    /// Those of this host, for a new VM.
    pub(crate) fn of(_: &Kvm, vm: &VmFd) -> Result<Self, LiveError> {
        let mut init = kvm_vcpu_init::default();
        vm.get_preferred_target(&mut init)
            .map_err(LiveError::system("KVM_ARM_PREFERRED_TARGET"))?;
        Ok(Self(init))
    }

    pub(crate) fn give(&self, vcpu: &VcpuFd) -> Result<(), LiveError> {
        vcpu.vcpu_init(&self.0)
            .map_err(LiveError::system("KVM_ARM_VCPU_INIT"))
    }
}
