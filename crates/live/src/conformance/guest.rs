//! A VM whose guest does one access at a time, in ring 3.
//!
//! Its own memory, slot [`GUEST_SLOT`] from address 0 on, has page tables that map the first 8 GiB to themselves by
//! pages of 2 MiB, with A and D set beforehand, and two programs of two instructions: the access, and a write to
//! [`DONE_PORT`].

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_userspace_memory_region};
use kvm_ioctls::{VcpuFd, VmFd};
use pagetoll_conformance::kvm::{GUEST_BYTES, GUEST_SLOT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use crate::routes::demand::{Ring, long_mode};
use crate::{LiveError, host};

/// The port that ends an access: POST codes, which no machine answers on.
pub(super) const DONE_PORT: u16 = 0x80;
/// Where [`long_mode`] has the first page table.
const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
const GIBS: u64 = 8;
const READ: u64 = 4 << 20;
const WRITE: u64 = READ + 0x1000;
/// `mov rax, [rdi]`, `out dx, al`; `mov [rdi], rax`, `out dx, al` (Intel SDM volume 2).
const READ_CODE: [u8; 4] = [0x48, 0x8b, 0x07, 0xee];
const WRITE_CODE: [u8; 4] = [0x48, 0x89, 0x07, 0xee];
/// P, RW, US, A, D; and PS (Intel SDM volume 3, table 5-18).
const TABLE: u64 = 0x67;
const LARGE: u64 = TABLE | 1 << 7;
/// Bit 1 is always set; IOPL 3 lets ring 3 use ports.
const RFLAGS: u64 = 0x3002;

/// A VM with its guest's own memory.
#[derive(Debug)]
pub(super) struct Guest {
    // Dropped before the memory that it uses.
    pub(super) vm: VmFd,
    _own: GuestMemoryMmap,
    cpuid: kvm_bindings::CpuId,
}

impl Guest {
    pub(super) fn new() -> Result<Self, LiveError> {
        let kvm = host::open_kvm()?;
        let vm = kvm
            .create_vm()
            .map_err(LiveError::system("KVM_CREATE_VM"))?;
        // Intel without unrestricted guests needs three pages that the guest does not use (KVM api.rst, 4.36).
        vm.set_tss_address(0xfffb_d000)
            .map_err(LiveError::system("KVM_SET_TSS_ADDR"))?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        let own = own_memory()?;
        let at = own
            .get_host_address(GuestAddress(0))
            .map_err(|error| inaccessible(&error))?;
        let region = kvm_userspace_memory_region {
            slot: GUEST_SLOT,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: GUEST_BYTES,
            userspace_addr: at.addr() as u64,
        };
        // SAFETY: the memory outlives the VM, and nobody holds references into it.
        unsafe { vm.set_user_memory_region(region) }.map_err(LiveError::system(
            "KVM_SET_USER_MEMORY_REGION of the guest's own",
        ))?;
        Ok(Self {
            vm,
            _own: own,
            cpuid: cpuid.map_err(LiveError::system("KVM_GET_SUPPORTED_CPUID"))?,
        })
    }

    /// A vCPU in long mode and ring 3.
    pub(super) fn vcpu(&self, number: usize) -> Result<VcpuFd, LiveError> {
        let vcpu = self.vm.create_vcpu(number as u64);
        let vcpu = vcpu.map_err(LiveError::system("KVM_CREATE_VCPU"))?;
        vcpu.set_cpuid2(&self.cpuid)
            .map_err(LiveError::system("KVM_SET_CPUID2"))?;
        let fresh = vcpu
            .get_sregs()
            .map_err(LiveError::system("KVM_GET_SREGS"))?;
        vcpu.set_sregs(&long_mode(fresh, Ring::Three))
            .map_err(LiveError::system("KVM_SET_SREGS"))?;
        Ok(vcpu)
    }
}

/// The registers that begin an access: a word to write, or none to read.
pub(super) fn registers(gpa: u64, word: Option<u64>) -> kvm_regs {
    kvm_regs {
        rip: word.map_or(READ, |_| WRITE),
        rflags: RFLAGS,
        rdi: gpa,
        rax: word.unwrap_or(0),
        rdx: DONE_PORT.into(),
        ..kvm_regs::default()
    }
}

fn own_memory() -> Result<GuestMemoryMmap, LiveError> {
    let bytes = usize::try_from(GUEST_BYTES).unwrap_or(usize::MAX);
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)]);
    let memory: GuestMemoryMmap = memory.map_err(|error| LiveError::System {
        operation: "mmap of the guest's own memory".into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    let write = |at: u64, number: u64| {
        memory
            .write_slice(&number.to_le_bytes(), GuestAddress(at))
            .map_err(|error| inaccessible(&error))
    };
    write(PML4, PDPT | TABLE)?;
    for gib in 0..GIBS {
        let directory = DIRECTORIES + gib * 4096;
        write(PDPT + gib * 8, directory | TABLE)?;
        for page in 0..512 {
            write(directory + page * 8, (gib << 30 | page << 21) | LARGE)?;
        }
    }
    for (at, code) in [(READ, READ_CODE), (WRITE, WRITE_CODE)] {
        memory
            .write_slice(&code, GuestAddress(at))
            .map_err(|error| inaccessible(&error))?;
    }
    Ok(memory)
}

fn inaccessible(error: &vm_memory::GuestMemoryError) -> LiveError {
    LiveError::System {
        operation: "access to the guest's own memory".into(),
        source: std::io::Error::other(error.to_string()),
    }
}
