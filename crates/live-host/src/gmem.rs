//! `exit-gmem`: exits that name their page, from memslots whose guest_memfd has been closed.
//!
//! A slot that is bound to a guest_memfd with `GUEST_MEMFD_FLAG_MMAP` takes its pages from there. When the file is
//! closed, the binding ends (`kvm_gmem_release`), and each fault in the slot is an exit with `KVM_EXIT_MEMORY_FAULT`
//! and its address (`kvm_gmem_get_pfn`, `virt/kvm/guest_memfd.c`, Linux 6.18). The page is populated by making the
//! slot an ordinary one: a whole slot at a time, so that a batch is a slot.
//!
//! The binding ends with the last close(2) of the file. A child of another thread that held it open would let the guest
//! find the file's zeroes and write there, without an exit; so the descriptor is in a table that no fork copies.
//!
//! The address that such a slot is given leads nowhere: where KVM emulates an instruction, it uses that address, and
//! would otherwise find an empty page there.
//!
//! A slot is gone for a moment while it is swapped. Here only one vCPU ever uses a slot; a VMM whose vCPUs share
//! memory would see MMIO exits in that moment.

#![allow(unsafe_code, reason = "a guest_memfd and its memslots")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kvm_bindings::{KVM_MEM_GUEST_MEMFD, kvm_create_guest_memfd, kvm_userspace_memory_region2};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use pagetoll_vmm::{ExitReason, Machine, reserve};
use vm_memory::{Bytes, GuestAddress, MmapRegion};

use crate::LiveError;
use crate::descriptors::on_own_table;
use pagetoll_pager::Counts;

/// `GUEST_MEMFD_FLAG_MMAP` and `GUEST_MEMFD_FLAG_INIT_SHARED` of linux/kvm.h (6.18).
const FLAGS: u64 = 1 << 0 | 1 << 1;

/// The memslots of a machine's paged memory.
#[derive(Debug)]
pub struct GmemSlots<'m> {
    machine: &'m Machine,
    content: &'m [u8],
    slot_bytes: u64,
    /// The addresses of slots whose page is missing.
    nowhere: MmapRegion,
    /// Set for slots that are ordinary ones by now.
    swapped: Vec<Mutex<bool>>,
}

/// Checks that this VM can have such slots.
///
/// # Errors
/// What is missing.
pub fn check(vm: &VmFd) -> Result<(), LiveError> {
    on_own_table(Some(vm.as_raw_fd()), || create(vm, 4096).map(drop))
}

/// Makes a guest_memfd, on a table of descriptors that no other thread shares.
pub fn create(vm: &VmFd, size: u64) -> Result<OwnedFd, LiveError> {
    let fd = vm.create_guest_memfd(kvm_create_guest_memfd {
        size,
        flags: FLAGS,
        ..Default::default()
    });
    let fd = fd.map_err(|error| {
        LiveError::environment(
            format!("KVM has no guest_memfd for ordinary memory here ({error})"),
            "use Linux 6.18 or later with CONFIG_KVM_GUEST_MEMFD",
        )
    })?;
    // SAFETY: a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl<'m> GmemSlots<'m> {
    /// Slots of `batch` pages for all paged memory.
    pub fn new(machine: &'m Machine, batch: u32, content: &'m [u8]) -> Result<Self, LiveError> {
        let layout = machine.backing().layout;
        let slot_bytes = u64::from(batch) * 4096;
        let count = layout.data_bytes() / slot_bytes;
        check_count(machine, count)?;
        if !layout.pages.is_multiple_of(u64::from(batch)) {
            return Err(LiveError::environment(
                format!(
                    "{} pages do not divide into memslots of {batch}",
                    layout.pages
                ),
                "order a number of pages that the batches divide",
            ));
        }
        let slots = Self {
            machine,
            content,
            slot_bytes,
            nowhere: reserve(layout.data_bytes())?,
            swapped: (0..count).map(|_| Mutex::new(false)).collect(),
        };
        let vm = machine.vm().fd.as_raw_fd();
        on_own_table(Some(vm), || slots.bind_to_closed())?;
        Ok(slots)
    }

    /// Binds the slots to a file and closes it, after which they are bound to nothing.
    fn bind_to_closed(&self) -> Result<(), LiveError> {
        let count = self.swapped.len() as u64;
        let file = create(&self.machine.vm().fd, count * self.slot_bytes)?;
        (0..count).try_for_each(|index| self.bind(index, &file))
    }

    fn number(index: u64) -> u32 {
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }

    /// Guest physical address of a slot.
    fn guest(&self, index: u64) -> u64 {
        self.machine.backing().layout.data + index * self.slot_bytes
    }

    fn bind(&self, index: u64, file: &OwnedFd) -> Result<(), LiveError> {
        let userspace_addr = self.nowhere.as_ptr().addr() as u64 + index * self.slot_bytes;
        let region = kvm_userspace_memory_region2 {
            slot: Self::number(index),
            flags: KVM_MEM_GUEST_MEMFD,
            guest_phys_addr: self.guest(index),
            memory_size: self.slot_bytes,
            userspace_addr,
            guest_memfd_offset: index * self.slot_bytes,
            guest_memfd: file.as_raw_fd().cast_unsigned(),
            ..Default::default()
        };
        // SAFETY: what is behind the address can be neither read nor written, and the slots are swapped or never entered
        // again before it goes.
        let set = unsafe { self.machine.vm().fd.set_user_memory_region2(region) };
        set.map_err(LiveError::system(
            "KVM_SET_USER_MEMORY_REGION2 with a guest_memfd",
        ))
    }

    /// Enters the guest until it leaves for another reason than a missing page.
    pub fn run(&self, vcpu: &mut VcpuFd, counts: &mut Counts) -> Result<ExitReason, LiveError> {
        let memory = &self.machine.backing().memory;
        loop {
            let fault = match vcpu.run() {
                Ok(VcpuExit::MemoryFault { gpa, .. }) => gpa,
                Ok(VcpuExit::MmioRead(gpa, data)) if self.index(gpa).is_some() => {
                    self.populate(gpa, counts)?;
                    let read = memory.read_slice(data, GuestAddress(gpa));
                    read?;
                    counts.completed += 1;
                    continue;
                }
                Ok(VcpuExit::MmioWrite(gpa, data)) if self.index(gpa).is_some() => {
                    self.populate(gpa, counts)?;
                    let written = memory.write_slice(data, GuestAddress(gpa));
                    written?;
                    counts.completed += 1;
                    continue;
                }
                Ok(other) => return Ok(ExitReason::from_exit(&other)),
                Err(error) => return Ok(ExitReason::from_error(error)),
            };
            counts.reported += 1;
            self.populate(fault, counts)?;
        }
    }

    fn index(&self, address: u64) -> Option<u64> {
        let index = address.checked_sub(self.machine.backing().layout.data)? / self.slot_bytes;
        (index < self.swapped.len() as u64).then_some(index)
    }

    /// Fills a slot's memory and makes it an ordinary slot.
    fn populate(&self, address: u64, counts: &mut Counts) -> Result<(), LiveError> {
        counts.faults += 1;
        let index = self.index(address).ok_or_else(|| LiveError::System {
            operation: format!("a fault at {address:#x}"),
            source: std::io::Error::other("no memslot of the paged memory"),
        })?;
        let slot = &self.swapped[usize::try_from(index).unwrap_or(usize::MAX)];
        let mut swapped = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if *swapped {
            counts.spurious += 1;
            return Ok(());
        }
        let began = Instant::now();
        let guest = self.guest(index);
        self.fill(index, guest)?;
        let filled = Instant::now();
        counts.reading += filled - began;
        let number = Self::number(index);
        self.machine.delete_slot(number)?;
        self.machine.set_slot(number, guest, self.slot_bytes)?;
        counts.installing += filled.elapsed();
        counts.calls += 2;
        counts.pages += self.slot_bytes / 4096;
        *swapped = true;
        Ok(())
    }

    fn fill(&self, index: u64, guest: u64) -> Result<(), LiveError> {
        let range = |at: u64| usize::try_from(at * self.slot_bytes).unwrap_or(usize::MAX);
        let content = self
            .content
            .get(range(index)..range(index + 1))
            .unwrap_or_default();
        let memory = &self.machine.backing().memory;
        Ok(memory.write_slice(content, GuestAddress(guest))?)
    }
}

fn check_count(machine: &Machine, count: u64) -> Result<(), LiveError> {
    let most = machine
        .vm()
        .fd
        .check_extension_int(kvm_ioctls::Cap::NrMemslots);
    match u64::try_from(most) {
        Ok(most) if count < most => Ok(()),
        _ => Err(LiveError::environment(
            format!("{count} memslots are needed, KVM has {most}"),
            "order larger batches or fewer pages",
        )),
    }
}
