//! A vCPU in long mode: its registers before a program, and after it.

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};
use kvm_ioctls::VcpuFd;

use super::code::DONE_PORT;
use super::tables::PML4;
use crate::Error;
use crate::arch::Privilege;
use crate::guest::Parameters;

/// Bit 1 is always set; IOPL 3 lets ring 3 use ports.
pub(super) const RFLAGS: u64 = 0x3002;

/// Long mode at this privilege, by the tables of the guest.
///
/// # Errors
/// KVM refuses the registers.
pub fn set_privilege(vcpu: &VcpuFd, privilege: Privilege) -> Result<(), Error> {
    let fresh = vcpu.get_sregs().map_err(Error::system("KVM_GET_SREGS"))?;
    vcpu.set_sregs(&long_mode(fresh, privilege))
        .map_err(Error::system("KVM_SET_SREGS"))
}

/// The general registers that start a program.
pub(crate) fn set_registers(vcpu: &VcpuFd, code: u64, parameters: Parameters) -> Result<(), Error> {
    let regs = kvm_regs {
        rip: code,
        rflags: RFLAGS,
        rdi: parameters.data,
        rsi: parameters.order,
        rcx: parameters.pages,
        rdx: DONE_PORT.into(),
        r8: parameters.step,
        r9: parameters.first,
        ..kvm_regs::default()
    };
    vcpu.set_regs(&regs).map_err(Error::system("KVM_SET_REGS"))
}

/// The result of a program.
///
/// # Errors
/// KVM does not give the register.
pub fn result(vcpu: &VcpuFd) -> Result<u64, Error> {
    let regs = vcpu.get_regs().map_err(Error::system("KVM_GET_REGS"))?;
    Ok(regs.rbx)
}

/// Longest time that a page took in [`TimedTouch`](crate::guest::Program::TimedTouch), in nanoseconds; `None` where KVM does
/// not say how fast the TSC is.
///
/// # Errors
/// KVM does not give the register.
pub fn stall(vcpu: &VcpuFd) -> Result<Option<f64>, Error> {
    let regs = vcpu.get_regs().map_err(Error::system("KVM_GET_REGS"))?;
    let khz = vcpu.get_tsc_khz().ok().filter(|khz| *khz > 0);
    Ok(khz.map(|khz| regs.r15 as f64 * 1e6 / f64::from(khz)))
}

/// RIP, and CR2: the address of the guest's last page fault.
#[must_use]
pub fn place(vcpu: &VcpuFd) -> String {
    let rip = vcpu.get_regs().map_or(0, |regs| regs.rip);
    let cr2 = vcpu.get_sregs().map_or(0, |sregs| sregs.cr2);
    format!("rip {rip:#x}, cr2 {cr2:#x}")
}

/// Long mode at this privilege, on top of what KVM made of a fresh vCPU.
fn long_mode(fresh: kvm_sregs, privilege: Privilege) -> kvm_sregs {
    /// PE, MP, ET, NE, WP, PG.
    const CR0: u64 = 0x8001_0033;
    /// PAE, OSFXSR, OSXMMEXCPT.
    const CR4: u64 = 0x620;
    /// LME, LMA.
    const EFER: u64 = 0x500;
    let (cs, ss) = (
        segment(Kind::Code, privilege),
        segment(Kind::Data, privilege),
    );
    kvm_sregs {
        cr0: CR0,
        cr3: PML4,
        cr4: CR4,
        efer: EFER,
        cs,
        ds: ss,
        es: ss,
        fs: ss,
        gs: ss,
        ss,
        tr: task_state(),
        ..fresh
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Data,
}

/// A flat segment (Intel SDM volume 3, 3.4.5).
const fn segment(kind: Kind, privilege: Privilege) -> kvm_segment {
    let (index, type_, l) = match kind {
        Kind::Code => (1, 0xb, 1),
        Kind::Data => (2, 0x3, 0),
    };
    let dpl = match privilege {
        Privilege::Kernel => 0,
        Privilege::User => 3,
    };
    kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: index << 3 | dpl as u16,
        type_,
        present: 1,
        dpl,
        db: 1 - l,
        s: 1,
        l,
        g: 1,
        avl: 0,
        unusable: 0,
        padding: 0,
    }
}

/// A busy 64-bit task state segment, which VMX asks for; nothing is in it.
fn task_state() -> kvm_segment {
    kvm_segment {
        limit: 0x67,
        selector: 3 << 3,
        type_: 0xb,
        present: 1,
        ..kvm_segment::default()
    }
}
