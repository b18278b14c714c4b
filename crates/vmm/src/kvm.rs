//! /dev/kvm, and a VM with vCPUs but without memory.

use std::io;

use kvm_ioctls::{Kvm, VcpuFd, VmFd};

use crate::{Error, arch};

/// Device file of KVM.
pub const DEVICE: &str = "/dev/kvm";
/// The interface of KVM since Linux 2.6.22 (KVM api.rst, 4.1).
const API_VERSION: i32 = 12;

/// Opens [`DEVICE`].
///
/// # Errors
/// It is absent, may not be opened, or has another interface.
pub fn open_kvm() -> Result<Kvm, Error> {
    let kvm = Kvm::new().map_err(|error| {
        let (what, remedy) = without_kvm(io::Error::from(error).kind());
        Error::Environment {
            what: format!("{DEVICE}: {what}"),
            remedy,
        }
    })?;
    match kvm.get_api_version() {
        API_VERSION => Ok(kvm),
        -1 => Err(Error::Environment {
            what: format!(
                "{DEVICE}: KVM_GET_API_VERSION fails: {}",
                io::Error::last_os_error()
            ),
            remedy: "run it on a kernel of this processor: qemu-user hands on no ioctl of KVM",
        }),
        other => Err(Error::Environment {
            what: format!("{DEVICE}: version {other} of its interface"),
            remedy: "use a kernel whose KVM has version 12, as all have since 2.6.22",
        }),
    }
}

/// Reason for which /dev/kvm could not be opened, and the remedy.
fn without_kvm(kind: io::ErrorKind) -> (String, &'static str) {
    match kind {
        io::ErrorKind::NotFound => ("absent".into(), arch::WITHOUT_KVM),
        io::ErrorKind::PermissionDenied => (
            "permission denied".into(),
            "join the group that owns it (usermod -aG kvm USER, then log in again), or be root",
        ),
        other => (other.to_string(), "see dmesg"),
    }
}

/// A VM whose vCPUs have every feature that KVM supports here.
#[derive(Debug)]
pub struct Vm {
    /// Its file descriptor.
    pub fd: VmFd,
    features: arch::Features,
}

impl Vm {
    /// Makes a VM.
    ///
    /// # Errors
    /// There is no KVM, or it fails.
    pub fn new() -> Result<Self, Error> {
        let kvm = open_kvm()?;
        let fd = kvm.create_vm().map_err(Error::system("KVM_CREATE_VM"))?;
        let features = arch::Features::new(&kvm, &fd)?;
        Ok(Self { fd, features })
    }

    /// Makes the vCPU of this number.
    ///
    /// # Errors
    /// KVM fails.
    pub fn vcpu(&self, number: usize) -> Result<VcpuFd, Error> {
        let vcpu = self.fd.create_vcpu(number as u64);
        let vcpu = vcpu.map_err(Error::system(format!("KVM_CREATE_VCPU {number}")))?;
        self.features.give(&vcpu)?;
        Ok(vcpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_have_no_kvm_has_its_own_remedy() {
        let remedy = |kind| without_kvm(kind).1;
        assert!(remedy(io::ErrorKind::NotFound).contains("--device /dev/kvm"));
        assert!(remedy(io::ErrorKind::PermissionDenied).contains("group"));
    }
}
