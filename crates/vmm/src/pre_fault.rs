//! `KVM_PRE_FAULT_MEMORY`: stage 2 is populated before a guest is entered (Linux 6.11).

#![allow(unsafe_code, reason = "an ioctl that kvm-ioctls does not have")]

use std::io;

use kvm_bindings::KVMIO;
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_mut_ref;
use vmm_sys_util::ioctl_iowr_nr;

use crate::Error;

/// `KVM_CAP_PRE_FAULT_MEMORY` of include/uapi/linux/kvm.h.
pub const PRE_FAULT: core::ffi::c_ulong = 236;

/// `struct kvm_pre_fault_memory` of include/uapi/linux/kvm.h.
#[derive(Debug, Default)]
#[repr(C)]
struct Range {
    gpa: u64,
    size: u64,
    flags: u64,
    padding: [u64; 5],
}

ioctl_iowr_nr!(KVM_PRE_FAULT_MEMORY, KVMIO, 0xd5, Range);

/// Maps guest physical memory in stage 2, as a read of the vCPU would.
///
/// # Errors
/// The errno of the ioctl: `EOPNOTSUPP` without two-dimensional paging, `ENOENT` outside memslots.
pub fn pre_fault(vcpu: &VcpuFd, guest: u64, bytes: u64) -> Result<(), Error> {
    let mut range = Range {
        gpa: guest,
        size: bytes,
        ..Range::default()
    };
    // The kernel moves the range forward by what is done.
    while range.size > 0 {
        // SAFETY: the ioctl takes this structure; what it maps is what the guest may access already.
        let result = unsafe { ioctl_with_mut_ref(vcpu, KVM_PRE_FAULT_MEMORY(), &mut range) };
        match io::Error::last_os_error() {
            _ if result == 0 => {}
            error if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
            error => return Err(Error::system("KVM_PRE_FAULT_MEMORY")(error)),
        }
    }
    Ok(())
}
