//! Registers of a vCPU one by one (KVM api.rst, 4.68).

use std::mem::offset_of;

use kvm_bindings::{
    KVM_REG_ARM_CORE, KVM_REG_ARM64, KVM_REG_ARM64_SYSREG, KVM_REG_SIZE_U64, kvm_regs, user_pt_regs,
};
use kvm_ioctls::VcpuFd;

/// Number of a register of 64 bits, as `KVM_SET_ONE_REG` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u64);

pub(super) const PC: Register = core(offset_of!(user_pt_regs, pc));
pub(super) const PSTATE: Register = core(offset_of!(user_pt_regs, pstate));
pub(super) const SCTLR_EL1: Register = system(1, 0, 0);
pub(super) const TTBR0_EL1: Register = system(2, 0, 0);
pub(super) const TCR_EL1: Register = system(2, 0, 2);
pub(super) const ESR_EL1: Register = system(5, 2, 0);
pub(super) const FAR_EL1: Register = system(6, 0, 0);
pub(super) const MAIR_EL1: Register = system(10, 2, 0);
pub(super) const VBAR_EL1: Register = system(12, 0, 0);

/// A general register.
pub(super) const fn x(number: usize) -> Register {
    core(offset_of!(user_pt_regs, regs) + 8 * number)
}

/// A register of the core by its place among them, which is counted in words of 32 bits (`KVM_REG_ARM_CORE_REG`).
const fn core(offset: usize) -> Register {
    let number = (offset_of!(kvm_regs, regs) + offset) as u64 / 4;
    Register(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE as u64 | number)
}

/// A system register with op0 3 and op1 0, as those of EL1 that are used here have (`ARM64_SYS_REG`).
const fn system(crn: u64, crm: u64, op2: u64) -> Register {
    let number = 3 << 14 | crn << 7 | crm << 3 | op2;
    Register(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM64_SYSREG as u64 | number)
}

pub(super) fn set(
    vcpu: &VcpuFd,
    Register(id): Register,
    value: u64,
) -> Result<(), kvm_ioctls::Error> {
    vcpu.set_one_reg(id, &value.to_le_bytes()).map(drop)
}

pub(super) fn get(vcpu: &VcpuFd, Register(id): Register) -> Result<u64, kvm_ioctls::Error> {
    let mut value = [0; 8];
    vcpu.get_one_reg(id, &mut value)?;
    Ok(u64::from_le_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of KVM api.rst, and of `SCTLR_EL1` in arch/arm64/include/asm/sysreg.h.
    #[test]
    fn registers_have_their_documented_numbers() {
        assert_eq!(x(0).0, 0x6030_0000_0010_0000);
        assert_eq!(PC.0, 0x6030_0000_0010_0040);
        assert_eq!(PSTATE.0, 0x6030_0000_0010_0042);
        assert_eq!(SCTLR_EL1.0, 0x6030_0000_0013_c080);
        assert_eq!(VBAR_EL1.0, 0x6030_0000_0013_c600);
    }
}
