//! A guest whose written pages are found: its machine, its memory in the shape of a row, and its vCPU.

use std::fs::File;
use std::sync::{Mutex, PoisonError};

use kvm_ioctls::VcpuFd;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::MemoryKind;
use pagetoll_vmm::{Backing, DirtyLog, DirtyRing, Logging, Machine, Placed, Slots};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{Bytes, GuestAddress};

use super::host_memory::HostMemory;
use pagetoll_live_host::{LiveError, guest_memory};

/// Memslot of the pages that the guest writes.
pub(super) const SLOT: u32 = 1;
/// Entries of a dirty ring: fewer than a guest has pages, so that it fills up.
pub(super) const RING_ENTRIES: u32 = 4096;

/// Checks that as many hugetlb pages are free as a guest takes.
///
/// # Errors
/// There are fewer.
pub(super) fn require_hugepages(pages: u64) -> Result<(), LiveError> {
    let kind = MemoryKind::Hugetlb2m;
    let (needed, free) = (pages / 512, guest_memory::free_hugepages(kind).unwrap_or(0));
    if free >= needed {
        return Ok(());
    }
    Err(LiveError::environment(
        format!("{needed} hugetlb pages of 2 MiB are needed for --folio 2M, {free} are free"),
        format!(
            "echo N > {}/nr_hugepages with at least {needed} more than are used, as root",
            guest_memory::hugepages_folder(kind)
        ),
    ))
}

/// A guest and its mechanism's form of a dirty log.
pub(crate) struct Guest {
    pub(crate) machine: Machine,
    pub(crate) pages: u64,
    folio: Folio,
    ring: Mutex<Option<DirtyRing>>,
}

/// Origin of a guest's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'f> {
    /// New memory of the row's shape.
    New,
    /// A private mapping of a file.
    Private(&'f File),
    /// A shared mapping of a file.
    Shared(&'f File),
}

impl Guest {
    /// A guest of so many pages, as a mechanism needs it.
    ///
    /// # Errors
    /// The host lacks the mechanism or memory of this shape.
    pub(super) fn new(
        mechanism: Dirty,
        folio: Folio,
        pages: u64,
    ) -> Result<(Self, VcpuFd), LiveError> {
        if mechanism != Dirty::Pagemap {
            return Self::over(mechanism, folio, pages, Origin::New);
        }
        if folio != Folio::Pages4k {
            return Err(LiveError::environment(
                "pages of a private file mapping are copied one by one, as pages of 4 KiB",
                "order --folio 4K",
            ));
        }
        let file = memfd_create("pagetoll-image", MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(LiveError::system("memfd_create"))?);
        ftruncate(&file, pages * 4096).map_err(LiveError::system("ftruncate of an image"))?;
        Self::over(mechanism, folio, pages, Origin::Private(&file))
    }

    /// A guest over memory of this origin.
    ///
    /// # Errors
    /// The host lacks the mechanism or memory of this shape.
    pub(super) fn over(
        mechanism: Dirty,
        folio: Folio,
        pages: u64,
        origin: Origin<'_>,
    ) -> Result<(Self, VcpuFd), LiveError> {
        let log = dirty_log(mechanism);
        log.require()?;
        let backing = backing(folio, pages, origin)?;
        let machine = Machine::with_dirty_log(backing, Slots::Boot, log)?;
        let vcpu = machine.vcpu(0)?;
        let ring = match log {
            DirtyLog::Ring(entries) => Some(DirtyRing::new(&vcpu, entries)?),
            DirtyLog::Bitmap | DirtyLog::Manual | DirtyLog::InitiallySet => None,
        };
        let guest = Self {
            machine,
            pages,
            folio,
            ring: Mutex::new(ring),
        };
        guest.log(Logging::Off)?;
        let sequential: Vec<u64> = (0..pages).collect();
        guest.set_order(&sequential)?;
        Ok((guest, vcpu))
    }

    /// Begins or ends KVM's log of the guest's pages.
    pub(super) fn log(&self, logging: Logging) -> Result<(), LiveError> {
        let data = self.machine.backing().layout.data;
        let bytes = self.pages * 4096;
        Ok(self.machine.set_logged_slot(SLOT, data, bytes, logging)?)
    }

    /// The ring of its vCPU, which can be taken once.
    pub(super) fn ring(&self) -> Result<DirtyRing, LiveError> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = ring.take();
        ring.ok_or_else(|| LiveError::Session("the vCPU has no dirty ring to take".into()))
    }

    /// Its pages in this process.
    pub(super) fn host(&self) -> Result<HostMemory, LiveError> {
        let start = self.machine.backing().data_address()?;
        Ok(HostMemory::new(start, self.pages))
    }

    /// Pages that the kernel protects at once.
    pub(super) const fn unit(&self) -> u64 {
        match self.folio {
            Folio::Pages2m => 512,
            _ => 1,
        }
    }

    /// Shape of its memory.
    pub(super) const fn folio(&self) -> Folio {
        self.folio
    }

    /// Sets the order in which the guest writes pages.
    pub(crate) fn set_order(&self, pages: &[u64]) -> Result<(), LiveError> {
        let layout = self.machine.backing().layout;
        let offsets: Vec<u64> = pages.iter().map(|page| page * 4096).collect();
        let memory = &self.machine.backing().memory;
        Ok(pagetoll_vmm::guest::write(
            memory,
            layout.order_of(0),
            &offsets,
        )?)
    }

    /// The first word of a page.
    pub(super) fn word(&self, page: u64) -> Result<u64, LiveError> {
        let backing = self.machine.backing();
        let address = GuestAddress(backing.layout.data + page * 4096);
        Ok(backing.memory.read_obj(address)?)
    }

    /// Writes the first word of a page by its address in this process, as a VMM does.
    pub(super) fn write_from_host(&self, page: u64, word: u64) -> Result<(), LiveError> {
        let backing = self.machine.backing();
        let address = GuestAddress(backing.layout.data + page * 4096);
        Ok(backing.memory.write_obj(word, address)?)
    }
}

const fn dirty_log(mechanism: Dirty) -> DirtyLog {
    match mechanism {
        Dirty::ManualProtect => DirtyLog::Manual,
        Dirty::InitiallySet => DirtyLog::InitiallySet,
        Dirty::Ring => DirtyLog::Ring(RING_ENTRIES),
        Dirty::Bitmap
        | Dirty::UffdWp
        | Dirty::WpAsync
        | Dirty::SoftDirty
        | Dirty::Pagemap
        | Dirty::Mincore => DirtyLog::Bitmap,
    }
}

fn backing(folio: Folio, pages: u64, origin: Origin<'_>) -> Result<Backing, LiveError> {
    let placed = match origin {
        Origin::New => {
            let kind = match folio {
                Folio::Thp => MemoryKind::Thp,
                Folio::Pages2m => MemoryKind::Hugetlb2m,
                _ => MemoryKind::Anonymous,
            };
            return guest_memory::map(kind, 1, pages);
        }
        Origin::Private(file) => Placed::PrivateFile(file),
        Origin::Shared(file) => Placed::Shared(file),
    };
    let backing = Backing::reserved(1, pages)?;
    backing.place(pages * 4096, placed)?;
    Ok(backing)
}
