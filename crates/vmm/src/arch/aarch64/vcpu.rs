//! A vCPU with translation on: its registers before a program, and after it.

use kvm_ioctls::VcpuFd;

use super::DONE;
use super::registers::{ESR_EL1, FAR_EL1, PC, PSTATE, SCTLR_EL1, get, set, x};
use super::tables::SETTINGS;
use crate::Error;
use crate::arch::Privilege;
use crate::guest::Parameters;

/// Translation and both caches on, by the tables of the guest, at this exception level.
///
/// # Errors
/// KVM refuses the registers.
pub fn set_privilege(vcpu: &VcpuFd, privilege: Privilege) -> Result<(), Error> {
    /// M, C and I.
    const ON: u64 = 1 | 1 << 2 | 1 << 12;
    /// D, A, I and F: nothing interrupts.
    const MASKED: u64 = 0x3c0;
    let level = match privilege {
        Privilege::Kernel => 0x5, // EL1h
        Privilege::User => 0x0,   // EL0t
    };
    let on = || {
        for (register, value) in SETTINGS {
            set(vcpu, register, value)?;
        }
        // What a reset sets of it are bits that have to be set.
        set(vcpu, SCTLR_EL1, get(vcpu, SCTLR_EL1)? | ON)?;
        set(vcpu, PSTATE, MASKED | level)
    };
    on().map_err(Error::system("KVM_SET_ONE_REG of EL1's registers"))
}

/// The general registers that start a program.
pub(crate) fn set_registers(vcpu: &VcpuFd, code: u64, parameters: Parameters) -> Result<(), Error> {
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
    all().map_err(Error::system("KVM_SET_ONE_REG of general registers"))
}

/// Longest time that a page took in [`TimedTouch`](crate::guest::Program::TimedTouch): not measured here.
///
/// # Errors
/// None.
pub const fn stall(_: &VcpuFd) -> Result<Option<f64>, Error> {
    Ok(None)
}

/// The result of a program.
///
/// # Errors
/// KVM does not give the register.
pub fn result(vcpu: &VcpuFd) -> Result<u64, Error> {
    get(vcpu, x(6)).map_err(Error::system("KVM_GET_ONE_REG of X6"))
}

/// PC, and the guest's last exception with its address.
#[must_use]
pub fn place(vcpu: &VcpuFd) -> String {
    let [pc, esr, far] = [PC, ESR_EL1, FAR_EL1].map(|register| get(vcpu, register).unwrap_or(0));
    format!("pc {pc:#x}, esr_el1 {esr:#x}, far_el1 {far:#x}")
}
