//! /dev/kvm, and a VM with vCPUs but without memory.

use std::io;

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::LiveError;

pub(crate) const DEVICE: &str = "/dev/kvm";
/// The interface of KVM since Linux 2.6.22 (KVM api.rst, 4.1).
const API_VERSION: i32 = 12;

pub(crate) fn open_kvm() -> Result<Kvm, LiveError> {
    let kvm = Kvm::new().map_err(|error| {
        let (what, remedy) = without_kvm(io::Error::from(error).kind());
        LiveError::environment(format!("{DEVICE}: {what}"), remedy)
    })?;
    match kvm.get_api_version() {
        API_VERSION => Ok(kvm),
        other => Err(LiveError::environment(
            format!("{DEVICE}: version {other} of its interface"),
            "use a kernel whose KVM has version 12, as all have since 2.6.22",
        )),
    }
}

/// What it means that /dev/kvm could not be opened, and what to do.
fn without_kvm(kind: io::ErrorKind) -> (String, &'static str) {
    match kind {
        io::ErrorKind::NotFound => (
            "absent".into(),
            "load kvm_intel or kvm_amd; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm",
        ),
        io::ErrorKind::PermissionDenied => (
            "permission denied".into(),
            "join the group that owns it (usermod -aG kvm USER, then log in again), or be root",
        ),
        other => (other.to_string(), "see dmesg"),
    }
}

/// A VM whose vCPUs have every feature of CPUID that KVM supports here.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) fd: VmFd,
    cpuid: CpuId,
}

impl Vm {
    pub(crate) fn new() -> Result<Self, LiveError> {
        let kvm = open_kvm()?;
        let fd = kvm
            .create_vm()
            .map_err(LiveError::system("KVM_CREATE_VM"))?;
        // Intel without unrestricted guests needs three pages that the guest does not use (KVM api.rst, 4.36).
        fd.set_tss_address(0xfffb_d000)
            .map_err(LiveError::system("KVM_SET_TSS_ADDR"))?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        Ok(Self {
            fd,
            cpuid: cpuid.map_err(LiveError::system("KVM_GET_SUPPORTED_CPUID"))?,
        })
    }

    pub(crate) fn vcpu(&self, number: usize) -> Result<VcpuFd, LiveError> {
        let vcpu = self.fd.create_vcpu(number as u64);
        let vcpu = vcpu.map_err(LiveError::system(format!("KVM_CREATE_VCPU {number}")))?;
        vcpu.set_cpuid2(&self.cpuid)
            .map_err(LiveError::system("KVM_SET_CPUID2"))?;
        Ok(vcpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_have_no_kvm_has_its_own_remedy() {
        let remedy = |kind| without_kvm(kind).1;
        assert!(remedy(io::ErrorKind::NotFound).contains("kvm_intel"));
        assert!(remedy(io::ErrorKind::PermissionDenied).contains("group"));
    }
}
