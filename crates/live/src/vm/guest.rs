//! The guest: long mode, identity-mapped by pages of 2 MiB, no kernel, no interrupts; small programs.
//!
//! | guest physical | what |
//! |---|---|
//! | `0x1000` | PML4, then PDPT, then a page directory for each GiB |
//! | 4 MiB | the programs, a page each |
//! | 6 MiB | for each vCPU, the order in which it touches its pages: an entry of 8 bytes for each |
//! | 4 GiB | the memory that is paged |
//!
//! A and D are set beforehand in all entries, so that neither the CPU nor a shadowing KVM has to set them.

mod code;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};
use pagetoll_bill::spec::Ring;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::LiveError;

pub(crate) use code::{DONE_PORT, Program};

/// Where the paged memory begins; a little later where its alignment in this process asks for it.
pub(crate) const DATA: u64 = 4 << 30;
const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
const CODE: u64 = 4 << 20;
const ORDERS: u64 = 6 << 20;
const GIB: u64 = 1 << 30;
const LARGE_PAGE: u64 = 2 << 20;

/// P, RW, US, A, D (Intel SDM volume 3, table 5-18).
const TABLE: u64 = 0x67;
/// The same with PS.
const LARGE: u64 = TABLE | 1 << 7;

/// DPL and RPL of the guest's segments.
pub(crate) const fn privilege_level(ring: Ring) -> u8 {
    match ring {
        Ring::Zero => 0,
        Ring::Three => 3,
    }
}

/// The guest's own memory, apart from what is paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) vcpus: usize,
    /// Pages of each vCPU.
    pub(crate) pages: u64,
    /// Where the paged memory begins.
    pub(crate) data: u64,
}

impl Layout {
    /// Bytes from address 0 on that the guest itself needs.
    pub(crate) fn boot_bytes(self) -> u64 {
        ORDERS + self.vcpus as u64 * self.order_stride()
    }

    fn order_stride(self) -> u64 {
        (self.pages * 8).next_multiple_of(LARGE_PAGE)
    }

    pub(crate) fn order_of(self, vcpu: usize) -> u64 {
        ORDERS + vcpu as u64 * self.order_stride()
    }

    pub(crate) fn data_of(self, vcpu: usize) -> u64 {
        self.data + vcpu as u64 * self.pages * 4096
    }

    pub(crate) fn data_bytes(self) -> u64 {
        self.vcpus as u64 * self.pages * 4096
    }

    /// Writes page tables and programs.
    pub(crate) fn write(self, memory: &GuestMemoryMmap) -> Result<(), LiveError> {
        let end = (self.data + self.data_bytes()).next_multiple_of(GIB);
        write(memory, PML4, &[PDPT | TABLE])?;
        for gib in 0..end / GIB {
            let directory = DIRECTORIES + gib * 4096;
            write(memory, PDPT + gib * 8, &[directory | TABLE])?;
            let entries: Vec<u64> = (0..GIB / LARGE_PAGE)
                .map(|page| (gib * GIB + page * LARGE_PAGE) | LARGE)
                .collect();
            write(memory, directory, &entries)?;
        }
        for program in Program::ALL {
            memory
                .write_slice(program.code(), GuestAddress(program_address(program)))
                .map_err(|error| inaccessible(&error))?;
        }
        Ok(())
    }
}

/// Writes numbers to guest memory.
pub(crate) fn write(
    memory: &GuestMemoryMmap,
    address: u64,
    numbers: &[u64],
) -> Result<(), LiveError> {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    memory
        .write_slice(&bytes, GuestAddress(address))
        .map_err(|error| inaccessible(&error))
}

pub(crate) fn inaccessible(error: &vm_memory::GuestMemoryError) -> LiveError {
    LiveError::System {
        operation: "access to guest memory".into(),
        source: std::io::Error::other(error.to_string()),
    }
}

const fn program_address(program: Program) -> u64 {
    CODE + program.number() * 4096
}

/// Arguments of a program: its pages, in which order, and what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) data: u64,
    pub(crate) order: u64,
    pub(crate) pages: u64,
    /// By how much a word differs from the one before it.
    pub(crate) step: u64,
    /// The content's word 0 of this vCPU's part.
    pub(crate) first: u64,
}

/// The general registers that start a program.
pub(crate) fn registers(program: Program, parameters: Parameters) -> kvm_regs {
    /// Bit 1 is always set; IOPL 3 lets ring 3 use ports.
    const RFLAGS: u64 = 0x3002;
    kvm_regs {
        rip: program_address(program),
        rflags: RFLAGS,
        rdi: parameters.data,
        rsi: parameters.order,
        rcx: parameters.pages,
        rdx: DONE_PORT.into(),
        r8: parameters.step,
        r9: parameters.first,
        ..kvm_regs::default()
    }
}

/// Long mode at this privilege, on top of what KVM made of a fresh vCPU.
pub(crate) fn long_mode(fresh: kvm_sregs, ring: Ring) -> kvm_sregs {
    /// PE, MP, ET, NE, WP, PG.
    const CR0: u64 = 0x8001_0033;
    /// PAE, OSFXSR, OSXMMEXCPT.
    const CR4: u64 = 0x620;
    /// LME, LMA.
    const EFER: u64 = 0x500;
    let (cs, ss) = (segment(Kind::Code, ring), segment(Kind::Data, ring));
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
const fn segment(kind: Kind, ring: Ring) -> kvm_segment {
    let (index, type_, l) = match kind {
        Kind::Code => (1, 0xb, 1),
        Kind::Data => (2, 0x3, 0),
    };
    let dpl = privilege_level(ring);
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
