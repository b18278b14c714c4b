//! A VM whose guest does one access at a time, in ring 3.
//!
//! Its own memory, slot [`GUEST_SLOT`] from address 0 on, has page tables that map the first 8 GiB to themselves, with
//! A and D set beforehand, and two programs of two instructions: the access, and what ends a program.

#![allow(unsafe_code, reason = "memory of this process becomes a guest's")]

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VcpuFd;
use pagetoll_conformance::kvm::{GUEST_BYTES, GUEST_SLOT};
use pagetoll_vmm::Vm;
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::CODE;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use pagetoll_live_host::LiveError;

/// Bytes that the tables map.
const MAPPED: u64 = 8 << 30;
const READ: u64 = CODE;
const WRITE: u64 = READ + 0x1000;

/// A VM with its guest's own memory.
#[derive(Debug)]
pub(super) struct Guest {
    // Dropped before the memory that it uses.
    pub(super) vm: Vm,
    _own: GuestMemoryMmap,
}

impl Guest {
    pub(super) fn new() -> Result<Self, LiveError> {
        let vm = Vm::new()?;
        let own = own_memory()?;
        let at = own.get_host_address(GuestAddress(0))?;
        let region = kvm_userspace_memory_region {
            slot: GUEST_SLOT,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: GUEST_BYTES,
            userspace_addr: at.addr() as u64,
        };
        // SAFETY: the memory outlives the VM, and there are no references into it.
        unsafe { vm.fd.set_user_memory_region(region) }.map_err(LiveError::system(
            "KVM_SET_USER_MEMORY_REGION of the guest's own",
        ))?;
        Ok(Self { vm, _own: own })
    }

    /// A vCPU in ring 3.
    pub(super) fn vcpu(&self, number: usize) -> Result<VcpuFd, LiveError> {
        let vcpu = self.vm.vcpu(number)?;
        arch::set_privilege(&vcpu, Privilege::User)?;
        Ok(vcpu)
    }
}

/// Sets the registers that read a word.
pub(super) fn begin_read(vcpu: &VcpuFd, gpa: u64) -> Result<(), kvm_ioctls::Error> {
    arch::begin_access(vcpu, READ, gpa, 0)
}

/// Sets the registers that write a word.
pub(super) fn begin_write(vcpu: &VcpuFd, gpa: u64, word: u64) -> Result<(), kvm_ioctls::Error> {
    arch::begin_access(vcpu, WRITE, gpa, word)
}

fn own_memory() -> Result<GuestMemoryMmap, LiveError> {
    let bytes = usize::try_from(GUEST_BYTES).unwrap_or(usize::MAX);
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)]);
    let memory: GuestMemoryMmap = memory.map_err(|error| LiveError::System {
        operation: "mmap of the guest's own memory".into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    arch::write_tables(&memory, MAPPED)?;
    for (at, code) in [(READ, arch::READ), (WRITE, arch::WRITE)] {
        memory.write_slice(&code, GuestAddress(at))?;
    }
    Ok(memory)
}
