//! What the pager knows of arm64: nothing is found that KVM does not report.
//!
//! A stage-2 fault that cannot be resolved makes `KVM_RUN` fail with `EFAULT` (`arch/arm64/kvm/mmu.c`,
//! `user_mem_abort`). The address is in FAR_EL2 and HPFAR_EL2, which user space cannot read. Only a kernel with
//! `KVM_CAP_MEMORY_FAULT_INFO` hands it on.

use kvm_bindings::kvm_run;
use kvm_ioctls::VcpuFd;

use super::guest_pages::GuestPages;
use super::resolver::MissingPage;
use crate::arch::program_counter;

/// Why a fault has no page.
pub(super) const UNEXPLAINED: &str = "KVM reports no page that is missing";

/// No decoder.
#[derive(Debug)]
pub(super) struct Decoding;

impl Decoding {
    pub(super) const fn new() -> Self {
        Self
    }

    /// Finds nothing.
    #[expect(
        clippy::unused_self,
        reason = "the same call as where a decoder keeps buffers"
    )]
    pub(super) const fn of_run(&self, _: &kvm_run, _: &impl GuestPages) -> Option<MissingPage> {
        None
    }
}

/// There is nothing to ask for: what KVM reports is in `struct kvm_run` anyway.
pub(super) const fn attach(_: &mut VcpuFd) {}

/// Where the guest stands, for a message.
pub(super) fn place(vcpu: &VcpuFd) -> String {
    format!("pc {:#x}", program_counter(vcpu).unwrap_or_default())
}
