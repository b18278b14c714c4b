//! arm64: only pages that KVM reports are found.
//!
//! A stage-2 fault that cannot be resolved makes `KVM_RUN` fail with `EFAULT` (`arch/arm64/kvm/mmu.c`,
//! `user_mem_abort`). The address is in FAR_EL2 and HPFAR_EL2, which user space cannot read. Only a kernel with
//! `KVM_CAP_MEMORY_FAULT_INFO` hands it on.

use std::mem::offset_of;

use kvm_bindings::{
    KVM_REG_ARM_CORE, KVM_REG_ARM64, KVM_REG_SIZE_U64, kvm_regs, kvm_run, user_pt_regs,
};
use kvm_ioctls::VcpuFd;

use super::guest_pages::GuestPages;
use super::resolver::MissingPage;

/// Nothing finds the page of a fault that KVM does not report.
pub const DECODES_FAULTS: bool = false;

/// Reason for a fault without a page.
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
    pub(super) const fn missing_page_of_run(
        &self,
        _: &kvm_run,
        _: &impl GuestPages,
    ) -> Option<MissingPage> {
        None
    }
}

/// There is nothing to ask for: what KVM reports is in `struct kvm_run` anyway.
pub(super) const fn attach(_: &mut VcpuFd) {}

/// The identifier of PC, a core register numbered in words of 32 bits (`KVM_REG_ARM_CORE_REG`, KVM api.rst 4.68).
const PC: u64 = {
    let word = (offset_of!(kvm_regs, regs) + offset_of!(user_pt_regs, pc)) as u64 / 4;
    KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE as u64 | word
};

/// The guest's program counter, for a message.
pub(super) fn place(vcpu: &VcpuFd) -> String {
    let mut pc = [0; 8];
    // It is 0 where KVM does not give it.
    let _ = vcpu.get_one_reg(PC, &mut pc);
    format!("pc {:#x}", u64::from_le_bytes(pc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_counter_has_its_documented_number() {
        assert_eq!(PC, 0x6030_0000_0010_0040);
    }
}
