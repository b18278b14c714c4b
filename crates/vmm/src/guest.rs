//! The guest: its programs and what it needs of memory, without a kernel and without interrupts.
//!
//! | guest physical | what |
//! |---|---|
//! | below 4 MiB | what the processor needs, such as page tables |
//! | 4 MiB | the programs, a page each |
//! | 6 MiB | for each vCPU, the order in which it touches its pages: an entry of 8 bytes for each |
//! | 4 GiB | the memory that is paged |

mod program;

use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::{Error, arch};

pub use program::Program;

/// Start of the paged memory; a little later where its alignment in this process requires it.
pub(crate) const DATA: u64 = 4 << 30;
/// Address of the programs.
pub const CODE: u64 = 4 << 20;
const ORDERS: u64 = 6 << 20;
const LARGE_PAGE: u64 = 2 << 20;

/// The guest's own memory, apart from what is paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of vCPUs.
    pub vcpus: usize,
    /// Pages of each vCPU.
    pub pages: u64,
    /// Start of the paged memory.
    pub data: u64,
}

impl Layout {
    /// Bytes from address 0 on that the guest itself needs.
    #[must_use]
    pub fn boot_bytes(self) -> u64 {
        ORDERS + self.vcpus as u64 * self.order_stride()
    }

    fn order_stride(self) -> u64 {
        (self.pages * 8).next_multiple_of(LARGE_PAGE)
    }

    /// Address of the order in which a vCPU touches its pages.
    #[must_use]
    pub fn order_of(self, vcpu: usize) -> u64 {
        ORDERS + vcpu as u64 * self.order_stride()
    }

    /// Start of the pages of a vCPU.
    #[must_use]
    pub fn data_of(self, vcpu: usize) -> u64 {
        self.data + vcpu as u64 * self.pages * 4096
    }

    /// Bytes of the paged memory.
    #[must_use]
    pub fn data_bytes(self) -> u64 {
        self.vcpus as u64 * self.pages * 4096
    }

    /// Writes page tables and programs.
    pub(crate) fn write(self, memory: &GuestMemoryMmap) -> Result<(), Error> {
        arch::write_tables(memory, self.data + self.data_bytes())?;
        for program in Program::ALL {
            memory.write_slice(arch::code(program), GuestAddress(program_address(program)))?;
        }
        Ok(())
    }
}

/// Writes numbers to guest memory.
///
/// # Errors
/// There is no memory at the address.
pub fn write(memory: &GuestMemoryMmap, address: u64, numbers: &[u64]) -> Result<(), Error> {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    memory
        .write_slice(&bytes, GuestAddress(address))
        .map_err(Error::from)
}

const fn program_address(program: Program) -> u64 {
    CODE + program.number() * 4096
}

/// Arguments of a program: its pages, in which order, and what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Address of the first page.
    pub data: u64,
    /// Address of the order.
    pub order: u64,
    /// Number of pages.
    pub pages: u64,
    /// Difference of a word from the one before it.
    pub step: u64,
    /// The content's word 0 of this vCPU's part.
    pub first: u64,
}

/// Sets a vCPU to the beginning of a program.
///
/// # Errors
/// KVM refuses the registers.
pub fn start(vcpu: &VcpuFd, program: Program, parameters: Parameters) -> Result<(), Error> {
    arch::set_registers(vcpu, program_address(program), parameters)
}
