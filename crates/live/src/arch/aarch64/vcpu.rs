//! A vCPU with translation on: its registers before a program, and after it.

use kvm_ioctls::VcpuFd;
use pagetoll_bill::spec::Ring;

use super::DONE;
use super::registers::{ESR_EL1, FAR_EL1, PC, PSTATE, SCTLR_EL1, get, set, x};
use super::tables::SETTINGS;
use crate::LiveError;
use crate::vm::guest::Parameters;

/// Translation and both caches on, by the tables of the guest, at this exception level.
pub(crate) fn set_privilege(vcpu: &VcpuFd, ring: Ring) -> Result<(), LiveError> {
    /// M, C and I.
    const ON: u64 = 1 | 1 << 2 | 1 << 12;
    /// D, A, I and F: nothing interrupts.
    const MASKED: u64 = 0x3c0;
    let level = match ring {
        Ring::Zero => 0x5,  // EL1h
        Ring::Three => 0x0, // EL0t
    };
    let on = || {
        for (register, value) in SETTINGS {
            set(vcpu, register, value)?;
        }
        // What a reset sets of it are bits that have to be set.
        set(vcpu, SCTLR_EL1, get(vcpu, SCTLR_EL1)? | ON)?;
        set(vcpu, PSTATE, MASKED | level)
    };
    on().map_err(LiveError::system("KVM_SET_ONE_REG of EL1's registers"))
}

/// The general registers that start a program.
pub(crate) fn set_registers(
    vcpu: &VcpuFd,
    code: u64,
    parameters: Parameters,
) -> Result<(), LiveError> {
    let values = [
        parameters.data,
        parameters.order,
        parameters.pages,
        DONE,
        parameters.step,
        parameters.first,
        0,
    ];
    let all = || {
        for (number, value) in values.into_iter().enumerate() {
            set(vcpu, x(number), value)?;
        }
        set(vcpu, PC, code)
    };
    all().map_err(LiveError::system("KVM_SET_ONE_REG of general registers"))
}

/// The result of a program.
pub(crate) fn result(vcpu: &VcpuFd) -> Result<u64, LiveError> {
    get(vcpu, x(6)).map_err(LiveError::system("KVM_GET_ONE_REG of X6"))
}

/// PC, and what the guest's last exception was, and at which address.
pub(crate) fn place(vcpu: &VcpuFd) -> String {
    let [pc, esr, far] = [PC, ESR_EL1, FAR_EL1].map(|register| get(vcpu, register).unwrap_or(0));
    format!("pc {pc:#x}, esr_el1 {esr:#x}, far_el1 {far:#x}")
}
