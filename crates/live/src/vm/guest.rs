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
use pagetoll_bill::spec::Ring;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::{LiveError, arch};

pub(crate) use program::Program;

/// Where the paged memory begins; a little later where its alignment in this process asks for it.
pub(crate) const DATA: u64 = 4 << 30;
/// Where programs are.
pub(crate) const CODE: u64 = 4 << 20;
const ORDERS: u64 = 6 << 20;
const LARGE_PAGE: u64 = 2 << 20;

/// The ring as a bill has it: DPL and RPL of x86-64; ring 0 is EL1 of arm64, ring 3 is EL0.
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
        arch::write_tables(memory, self.data + self.data_bytes())?;
        for program in Program::ALL {
            memory
                .write_slice(arch::code(program), GuestAddress(program_address(program)))
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

/// Makes a vCPU ready to run a program from its beginning.
pub(crate) fn start(
    vcpu: &VcpuFd,
    program: Program,
    parameters: Parameters,
) -> Result<(), LiveError> {
    arch::set_registers(vcpu, program_address(program), parameters)
}
