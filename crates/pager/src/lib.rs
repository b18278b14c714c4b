//! A demand pager for VMMs: pages of guest memory come from a [`PageSource`] when a guest, or any other user of the
//! memory, first touches them.
//!
//! | [`Delivery`] of a fault | who resolves it | serves |
//! |---|---|---|
//! | [`Error`](Delivery::Error): the vCPU leaves `KVM_RUN` with `EFAULT` | its own thread, in [`FaultHandler::run`]: no queue, no reader, no wake-up, so that it scales with the vCPUs | vCPUs |
//! | [`Message`](Delivery::Message): the faulting thread sleeps in the kernel | a reader, in [`Pager::serve`] | any thread, and the kernel |
//!
//! [`Delivery::Error`] is `KVM_CAP_EXIT_ON_MISSING` (a series for KVM, v7 of February 2024, never merged) on kernels as
//! they are: [`ExitResolver`] finds the missing page, and can be used without the rest. On arm64 it finds only what KVM reports
//! (`KVM_CAP_MEMORY_FAULT_INFO`): without that, `run` ends with [`PagerError::Unexplained`].
//!
//! # Restoring a snapshot
//!
//! The source is the snapshot's memory: [`FileSource`] for a flat file, as Firecracker's, with its regions one after
//! another. Faults alone are enough. What a guest will need can come before it asks:
//!
//! | | populates | runs |
//! |---|---|---|
//! | [`Pager::populate`] | a set that [`Pager::present`] recorded in an earlier run, in large calls | before the guest, or beside it |
//! | [`Pager::prefault`] | all that is missing, some pages at a time | beside the guest |
//!
//! [`Pager::new_shared`] restores into shared memory without a copy: the content is read into the page cache by way of
//! a second mapping, and `UFFDIO_CONTINUE` maps it.
//!
//! Several guests are restored from one image by a pager each, with memory of its own, over a source that they share:
//! `&S` is a [`PageSource`] where `S` is one. The image is only read.
//!
//! ```
//! # fn main() -> Result<(), pagetoll_pager::PagerError> {
//! use pagetoll_pager::{GuestRange, MemorySource, Options, Pager, ReaderStop};
//! use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
//!
//! # if pagetoll_pager::Features::detect().is_err() { return Ok(()); }
//! let image = MemorySource(vec![7_u8; 0x10000]); // or FileSource(file)
//! let all = [GuestRange { start: GuestAddress(0), bytes: 0x10000 }];
//! let memory = || GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap();
//!
//! // The first guest runs; what it touched is recorded.
//! let first = Pager::new(memory(), &all, &image, Options::default())?;
//! first.populate(&[GuestRange { start: GuestAddress(0x3000), bytes: 0x2000 }])?; // stands in for the guest
//! let recorded = first.present();
//!
//! // The second has it before it starts, and the rest from a thread beside it.
//! let (restored, stop) = (memory(), ReaderStop::new()?);
//! let second = Pager::new(restored.clone(), &all, &image, Options::default())?;
//! assert_eq!(second.populate(&recorded)?.pages, 2);
//! std::thread::scope(|scope| {
//!     let prefault = scope.spawn(|| second.prefault(64, &stop));
//!     // The guest runs here. Where it ends first, `stop.request()` ends the prefault.
//!     prefault.join().unwrap()
//! })?;
//! assert_eq!(second.present(), all);
//! assert_eq!(restored.read_obj::<u8>(GuestAddress(0xffff)).unwrap(), 7);
//! # Ok(())
//! # }
//! ```
//!
//! # Caveats
//!
//! - With `Delivery::Error`, threads of the VMM that touch a missing page themselves, such as device emulation, get
//!   SIGBUS, and the kernel's accesses on behalf of others (vhost, read(2) into guest memory) fail with `EFAULT`. They call
//!   [`FaultHandler::populate`] first, or use a second mapping of the same shared memory, with a pager of its own that
//!   delivers messages; not with [`Pager::new_shared`], whose file has one pager.
//! - The kernel may unmap pages of shared memory again, to swap them out. With minor faults reported, as
//!   `Pager::new_shared` and [`Mode::Minor`] do, the next access is a fault: a reader maps the page again; with
//!   `Delivery::Error` that needs KVM's report (`KVM_CAP_MEMORY_FAULT_INFO`), or memory that is locked.
//! - Memory that is given back (ballooning, `MADV_DONTNEED`) is announced by [`Pager::forget`].
//! - On a host whose KVM has no hardware virtualisation (shadow paging), KVM itself walks the guest's tables and
//!   emulates some of its instructions, and takes a missing page of a table for one that the guest has not mapped.
//!   There, page tables, descriptor tables and the task state are populated before the guest is entered
//!   (`FaultHandler::populate_tables`).
//! - Memory is a [`GuestMemoryMmap`] without a dirty bitmap. There is no write protection, no migration protocol but
//!   [`socket`], and no fork or remap events.
//!
//! # Versions
//!
//! Types of [`kvm_bindings`], [`kvm_ioctls`] and [`vm_memory`] are part of the interface, so a VMM has to depend on the
//! versions that this crate does; they are exported here.
//!
//! Linux 4.14 or later for `Delivery::Error` (`UFFD_FEATURE_SIGBUS`), with `KVM_CAP_SYNC_REGS` (4.17) on x86-64;
//! `Pager::new_shared` needs 5.14 (`UFFD_FEATURE_MINOR_SHMEM`). Faults of the kernel's own, as KVM's are, need root,
//! `CAP_SYS_PTRACE`, `vm.unprivileged_userfaultfd=1` or access to /dev/userfaultfd.
//!
//! # Example
//!
//! A guest whose code is at `0x1000` adds two bytes of a page that it does not have yet. `examples/restore.rs` restores
//! memory from a file for threads of the VMM, `examples/snapshot.rs` guests from a Firecracker snapshot.
//!
//! ```ignore-aarch64
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kvm_ioctls::{Kvm, VcpuExit};
//! use pagetoll_pager::{GuestRange, MemorySource, Options, Pager, RunOutcome};
//! use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
//!
//! # if pagetoll_pager::Features::detect().is_err() || Kvm::new().is_err() { return Ok(()); }
//! let kvm = Kvm::new()?;
//! let vm = kvm.create_vm()?;
//! let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x4000)])?;
//! for (slot, region) in memory.iter().enumerate() {
//!     let region = kvm_bindings::kvm_userspace_memory_region {
//!         slot: u32::try_from(slot)?,
//!         guest_phys_addr: region.start_addr().0,
//!         memory_size: region.len(),
//!         userspace_addr: memory.get_host_address(region.start_addr())? as u64,
//!         flags: 0,
//!     };
//!     // SAFETY: `memory` outlives the VM.
//!     unsafe { vm.set_user_memory_region(region)? };
//! }
//!
//! // What the guest's memory shall hold: `mov al, [0x3000]; add al, [0x3001]; hlt` in real mode at 0x1000.
//! let mut snapshot = vec![0; 0x4000];
//! snapshot[0x1000..0x1008].copy_from_slice(&[0xa0, 0x00, 0x30, 0x02, 0x06, 0x01, 0x30, 0xf4]);
//! snapshot[0x3000..0x3002].copy_from_slice(&[40, 2]);
//!
//! let all = [GuestRange { start: GuestAddress(0), bytes: 0x4000 }];
//! let pager = Pager::new(memory, &all, MemorySource(snapshot), Options::default())?;
//!
//! let mut vcpu = vm.create_vcpu(0)?;
//! let mut sregs = vcpu.get_sregs()?;
//! (sregs.cs.base, sregs.cs.selector) = (0, 0);
//! vcpu.set_sregs(&sregs)?;
//! vcpu.set_regs(&kvm_bindings::kvm_regs { rip: 0x1000, rflags: 2, ..Default::default() })?;
//!
//! pager.attach(&mut vcpu)?;
//! let mut handler = pager.handler();
//! loop {
//!     match handler.run(&mut vcpu, |exit| matches!(exit, VcpuExit::Hlt))? {
//!         RunOutcome::Exit(halted) => break assert!(halted),
//!         RunOutcome::Interrupted => {} // look what the signal was for, then enter again
//!     }
//! }
//! assert_eq!(vcpu.get_regs()?.rax & 0xff, 42);
//! assert!(handler.counts().pages >= 2);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("pagetoll-pager is for Linux on x86-64 and arm64");

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod error;
mod guest_pages;
mod handler;
mod install;
mod kvm_union;
mod ranges;
mod reader;
mod resolver;
mod restore;
mod shared;
mod source;
#[cfg(test)]
mod testing;
mod units;
mod userfaultfd;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::io;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

pub use kvm_bindings;
pub use kvm_ioctls;
pub use vm_memory;

use kvm_ioctls::VcpuFd;
use vm_memory::GuestMemoryMmap;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
pub use error::PagerError;
pub use guest_pages::{GuestPages, PageState};
pub use handler::{Counts, FaultHandler, RunOutcome};
pub use processor::DECODES_FAULTS;
pub use ranges::GuestRange;
use ranges::{PagedMemory, PagedRange, host_range};
pub use reader::{Multiplexer, ReaderStop};
pub use resolver::{Access, ExitResolver, MissingPage, Origin};
use shared::SharedUnits;
pub use source::{FileSource, MemorySource, PageSource, socket};
use units::UnitSet;
pub use userfaultfd::{
    Delivery, Features, HostRange, InstallOutcome, Mode, Userfaultfd, Wake, open_userfaultfd,
};
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;
#[cfg(target_arch = "x86_64")]
pub use x86_64::CpuState;

/// Retries of a source that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The most errors in a row.
    pub attempts: u32,
    /// The time between two attempts.
    pub pause: Duration,
}

/// Sharing of a userfaultfd, with its locks, between ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One for all ranges.
    One,
    /// One for each range.
    PerRange,
}

/// Options of a pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Delivery of faults by the kernel.
    pub delivery: Delivery,
    /// Kind of faults. With [`Mode::Minor`] the page cache already holds the content, and the source is not read.
    pub mode: Mode,
    /// Pages of 4 KiB that are populated at once, around the one that was touched; a power of two. Never less than
    /// the page size of the memory.
    pub batch: u32,
    /// The page size of the memory behind the guest's, in bytes: 4096, or that of hugetlb.
    pub page_size: u64,
    /// Sharing of a userfaultfd between the ranges.
    pub sharing: Sharing,
    /// Retries of the source.
    pub retry: Retry,
}

impl Options {
    /// The most units that one call populates.
    fn window(&self, unit: u64) -> usize {
        window(self.batch, unit)
    }
}

/// The units of `pages` of 4 KiB; at least one.
fn window(pages: u32, unit: u64) -> usize {
    let units = u64::from(pages) * 4096 / unit;
    usize::try_from(units).map_or(1, |units| units.max(1))
}

impl Default for Options {
    /// Exits, missing pages of 4 KiB, 16 at a time, one userfaultfd; a source may fail 8 times, 10 ms apart (assumed).
    fn default() -> Self {
        Self {
            delivery: Delivery::Error,
            mode: Mode::Missing,
            batch: 16,
            page_size: 4096,
            sharing: Sharing::One,
            retry: Retry {
                attempts: 8,
                pause: Duration::from_millis(10),
            },
        }
    }
}

/// Populates ranges of guest memory on demand.
#[derive(Debug)]
pub struct Pager<S> {
    paged: PagedMemory,
    userfaultfds: Vec<Arc<Userfaultfd>>,
    source: S,
    options: Options,
}

impl<S: PageSource> Pager<S> {
    /// Pages `ranges` of `memory` from now on. Their content stands in the source one after another.
    ///
    /// The ranges must not have been touched: pages that are there stay as they are.
    ///
    /// # Errors
    /// A range is not page-aligned or not within one region; the host has no userfaultfd, or not for this memory.
    pub fn new(
        memory: GuestMemoryMmap,
        ranges: &[GuestRange],
        source: S,
        options: Options,
    ) -> Result<Self, PagerError> {
        Self::build(memory, None, ranges, source, options)
    }

    /// Pages `ranges` of shared memory, which are populated by `UFFDIO_CONTINUE`: the content is written into the page
    /// cache by way of `second`, and no page is copied. Otherwise as [`new`](Self::new).
    ///
    /// `second` is another mapping of the same memfd that has `ranges` at the same guest addresses, and no userfaultfd.
    /// From now on the pager alone uses it, and no other pager populates the file: what others write to a page that is
    /// missing is overwritten. Both mappings know their file ([`FileOffset`](vm_memory::FileOffset)), whose file
    /// position changes here. Pages that the file has by now are taken as they are, and not read from the source.
    /// [`Options::mode`] has no effect: missing pages and minor faults are both reported.
    ///
    /// A page has one handler that writes it. A reader leaves it to that one, which wakes the page's waiters; a vCPU's
    /// thread waits until the page is present, as [`FaultHandler::populate`], [`Pager::populate`] and
    /// [`Pager::prefault`] do. If that handler fails, another writes the page again from its first byte. With
    /// [`Delivery::Message`] waiters are woken whatever [`Wake`] says.
    ///
    /// ```
    /// # use std::{error::Error, fs::File};
    /// # use pagetoll_pager::{Features, GuestRange, MemorySource, Options, Pager};
    /// # use rustix::fs::{MemfdFlags, memfd_create};
    /// # use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// # if !Features::detect().is_ok_and(Features::minor_shmem) { return Ok(()); }
    /// # let memfd = File::from(memfd_create("guest", MemfdFlags::CLOEXEC)?);
    /// memfd.set_len(0x10000)?;
    /// let map = || -> Result<GuestMemoryMmap, Box<dyn Error>> {
    ///     let part = FileOffset::new(memfd.try_clone()?, 0);
    ///     Ok(GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), 0x10000, Some(part))])?)
    /// };
    /// let all = [GuestRange { start: GuestAddress(0), bytes: 0x10000 }];
    /// let image = MemorySource(vec![7_u8; 0x10000]);
    /// let pager = Pager::new_shared(map()?, map()?, &all, &image, Options::default())?;
    /// # assert_eq!(pager.populate(&all)?.pages, 16);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Any error of [`new`](Self::new); a range is not the same part of the same shared file in both mappings, or has huge
    /// pages; the kernel reports no minor faults of shared memory (Linux 5.14, x86-64 and arm64).
    pub fn new_shared(
        memory: GuestMemoryMmap,
        second: GuestMemoryMmap,
        ranges: &[GuestRange],
        source: S,
        options: Options,
    ) -> Result<Self, PagerError> {
        let features = Features::detect().map_err(PagerError::system("userfaultfd"))?;
        if !features.minor_shmem() {
            let why = "the kernel has no UFFD_FEATURE_MINOR_SHMEM; it needs Linux 5.14";
            let error = io::Error::new(io::ErrorKind::Unsupported, why);
            return Err(PagerError::system("UFFDIO_REGISTER of minor faults")(error));
        }
        Self::build(memory, Some(&second), ranges, source, options)
    }

    fn build(
        memory: GuestMemoryMmap,
        second: Option<&GuestMemoryMmap>,
        ranges: &[GuestRange],
        source: S,
        options: Options,
    ) -> Result<Self, PagerError> {
        let mut userfaultfds: Vec<Arc<Userfaultfd>> = Vec::new();
        let mut paged = Vec::with_capacity(ranges.len());
        let mut source_start = 0;
        for range in ranges {
            if userfaultfds.is_empty() || options.sharing == Sharing::PerRange {
                let new = Userfaultfd::new(options.delivery);
                userfaultfds.push(Arc::new(new.map_err(PagerError::system("userfaultfd"))?));
            }
            let shared = second
                .map(|second| SharedUnits::new(&memory, second, *range, options.page_size))
                .transpose()?;
            paged.push(PagedRange {
                guest: *range,
                host: host_range(&memory, *range, options.page_size)?,
                source_start,
                unit: options.page_size,
                present: UnitSet::none(
                    usize::try_from(range.bytes / options.page_size).unwrap_or(usize::MAX),
                ),
                shared,
                userfaultfd: Arc::clone(&userfaultfds[userfaultfds.len() - 1]),
            });
            source_start += range.bytes;
        }
        let paged = PagedMemory {
            memory,
            ranges: paged,
        };
        paged.register(match second {
            Some(_) => &[Mode::Missing, Mode::Minor],
            None => slice::from_ref(&options.mode),
        })?;
        Ok(Self {
            paged,
            userfaultfds,
            source,
            options,
        })
    }

    /// Wake-up for pages that are populated ahead of a fault: a thread may sleep on them already.
    const fn wake(&self) -> Wake {
        match self.options.delivery {
            Delivery::Message => Wake::Waiters,
            Delivery::Error => Wake::None,
        }
    }

    /// Prepares a vCPU: on x86-64 its registers are synced at each exit.
    ///
    /// # Errors
    /// KVM cannot sync registers (`KVM_CAP_SYNC_REGS`, Linux 4.17).
    pub fn attach(&self, vcpu: &mut VcpuFd) -> Result<(), PagerError> {
        processor::attach(vcpu);
        Ok(())
    }

    /// A handler for one thread.
    #[must_use]
    pub fn handler(&self) -> FaultHandler<'_, S> {
        FaultHandler::new(self)
    }

    /// The number of userfaultfds, each of which needs a reader with [`Delivery::Message`].
    #[must_use]
    pub fn userfaultfds(&self) -> usize {
        self.userfaultfds.len()
    }

    /// Reads faults of one userfaultfd until `end` is requested; several threads may. Returns what was done.
    ///
    /// # Errors
    /// A page could not be populated. Threads that wait for it sleep until the pager is dropped.
    ///
    /// # Panics
    /// There is no userfaultfd of that number.
    pub fn serve(
        &self,
        userfaultfd: usize,
        end: &ReaderStop,
        multiplexer: Multiplexer,
    ) -> Result<Counts, PagerError> {
        reader::serve(self.handler(), userfaultfd, end, multiplexer)
    }

    /// The pages of a range have been given back; whole ones only, which must not be populated again
    /// meanwhile. Their content comes from the source again, in shared memory too, where the page cache may have it.
    ///
    /// # Errors
    /// The range is not paged.
    pub fn forget(&self, range: GuestRange) -> Result<(), PagerError> {
        let found = self.paged.find(range.start);
        let (paged, offset) = found.ok_or(PagerError::Elsewhere(range.start.0))?;
        let units = paged.unit_of(offset)..paged.unit_of(offset + range.bytes);
        paged.present.remove(units.clone());
        if let Some(shared) = &paged.shared {
            shared.forget(units);
        }
        Ok(())
    }
}
