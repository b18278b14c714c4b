//! The memory that an instruction touches: its operands and its stack, as linear addresses.
//!
//! What is decoded by iced-x86 is what the instruction may touch: a conditional move always reads, a repeated string
//! instruction is taken at its current element. Gathers and scatters need vector registers, which are not among the
//! synced ones, and are left out.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};

use crate::resolver::Access;

/// The registers of a vCPU when it left the guest.
#[derive(Clone, Copy, Debug)]
pub struct CpuState<'a> {
    /// General purpose registers.
    pub regs: &'a kvm_regs,
    /// Segments and control registers.
    pub sregs: &'a kvm_sregs,
}

/// Bytes that are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) access: Access,
}

/// The size of an operand that has no fixed one (XSAVE and its kin): all components up to AVX-512, as CPUID leaf 13
/// gives it. Source: Intel SDM volume 1, 13.5.
const XSAVE_BYTES: u64 = 2696;

impl CpuState<'_> {
    /// Bits of an address and of an operand where the code runs: 64, 32 or 16.
    pub(super) const fn bitness(&self) -> u32 {
        const EFER_LMA: u64 = 1 << 10;
        match (
            self.sregs.efer & EFER_LMA != 0 && self.sregs.cs.l == 1,
            self.sregs.cs.db,
        ) {
            (true, _) => 64,
            (false, 1) => 32,
            (false, _) => 16,
        }
    }

    /// The linear address of the next instruction.
    pub(super) const fn code(&self) -> u64 {
        match self.bitness() {
            64 => self.regs.rip,
            _ => (self.sregs.cs.base.wrapping_add(self.regs.rip)) & u32::MAX as u64,
        }
    }

    /// Memory that `instruction` may touch.
    pub(super) fn touched(
        &self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Vec<Touched> {
        let info = factory.info(instruction);
        let used = info.used_memory().iter();
        used.filter_map(|memory| self.touched_by(memory)).collect()
    }

    fn touched_by(&self, memory: &UsedMemory) -> Option<Touched> {
        let address = memory.virtual_address(0, |register, _, _| self.value(register))?;
        let bytes = match memory.memory_size().size() as u64 {
            0 => XSAVE_BYTES,
            bytes => bytes,
        };
        Some(Touched {
            address: if self.bitness() == 64 {
                address
            } else {
                address & u64::from(u32::MAX)
            },
            bytes,
            access: access(memory.access())?,
        })
    }

    /// The value of a register, or the base of a segment.
    fn value(&self, register: Register) -> Option<u64> {
        if register.is_segment_register() {
            return self.base(register);
        }
        let whole = self.whole(register.full_register())?;
        match register.size() {
            8 => Some(whole),
            4 => Some(whole & u64::from(u32::MAX)),
            2 => Some(whole & u64::from(u16::MAX)),
            1 => Some(whole & u64::from(u8::MAX)),
            _ => None,
        }
    }

    /// In 64-bit mode only FS and GS have a base.
    fn base(&self, register: Register) -> Option<u64> {
        let segment: &kvm_segment = match register {
            Register::FS => &self.sregs.fs,
            Register::GS => &self.sregs.gs,
            _ if self.bitness() == 64 => return Some(0),
            Register::CS => &self.sregs.cs,
            Register::DS => &self.sregs.ds,
            Register::ES => &self.sregs.es,
            Register::SS => &self.sregs.ss,
            _ => return None,
        };
        Some(segment.base)
    }

    const fn whole(&self, register: Register) -> Option<u64> {
        let regs = self.regs;
        Some(match register {
            Register::RAX => regs.rax,
            Register::RBX => regs.rbx,
            Register::RCX => regs.rcx,
            Register::RDX => regs.rdx,
            Register::RSI => regs.rsi,
            Register::RDI => regs.rdi,
            Register::RSP => regs.rsp,
            Register::RBP => regs.rbp,
            Register::R8 => regs.r8,
            Register::R9 => regs.r9,
            Register::R10 => regs.r10,
            Register::R11 => regs.r11,
            Register::R12 => regs.r12,
            Register::R13 => regs.r13,
            Register::R14 => regs.r14,
            Register::R15 => regs.r15,
            Register::RIP => regs.rip,
            _ => return None,
        })
    }
}

/// `None` where the operand is an address only, as for LEA.
const fn access(access: OpAccess) -> Option<Access> {
    Some(match access {
        OpAccess::Read | OpAccess::CondRead => Access::Read,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
            Access::Write
        }
        _ => return None,
    })
}
