//! A machine under Xen: memory, frames, I/O ranges, and a dom0. Source: xen/arch/x86/pv/dom0_build.c;
//! xen/arch/x86/dom0_build.c, `dom0_setup_permissions`, 4.17.

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_units::{Mfn, Pages};

use super::domain::{DomainId, Vcpu, VcpuId};
use super::errno::Errno;
use super::event_channel::{SharedInfo, VcpuInfo};
use super::frame::{Frame, FrameTable, PageType};
use super::tolls::Tolls;
use crate::words::Words;
use crate::x86::{Cpu, ENTRIES, Level, Memory, PageTableEntry};

/// The frame number with every bit of an entry's address set, which has an answer of its own.
const ALL_ONES: Mfn = Mfn((1 << 40) - 1);

/// Frames that are not RAM, and those of them that a domain may map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoMemory {
    /// Frames below this one exist on the bus (`paddr_bits`).
    pub end: Mfn,
    /// Frames that not even dom0 may map.
    pub denied: Vec<Range<Mfn>>,
    /// Frames that are mapped read-only whatever was asked for (`mmio_ro_ranges`).
    pub read_only: Vec<Range<Mfn>>,
}

impl IoMemory {
    pub(super) fn permits(&self, domain: DomainId, mfn: Mfn) -> bool {
        let denied = self.denied.iter().any(|range| range.contains(&mfn));
        domain == DomainId::DOM0 && mfn < self.end && !denied
    }

    pub(super) fn refusal(&self, mfn: Mfn) -> Errno {
        if mfn == ALL_ONES {
            Errno::Einval
        } else {
            Errno::Eperm
        }
    }

    pub(super) fn is_read_only(&self, mfn: Mfn) -> bool {
        self.read_only.iter().any(|range| range.contains(&mfn))
    }
}

/// Kind of a PV guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Width {
    /// A 64-bit kernel.
    #[default]
    Bits64,
    /// A 32-bit kernel with PAE. It differs in what Xen adds to its L1 entries, in ptwr, and in descriptors; its tables
    /// have four levels here, as Xen's own view of them has.
    Pae32,
}

/// The machine to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Frames of RAM, from 0. The first 256 are I/O memory, as the first megabyte of a PC is.
    pub frames: Pages,
    /// Dom0's frames, below `frames`.
    pub dom0: Range<Mfn>,
    /// Dom0's vCPUs, each on a CPU of its own.
    pub vcpus: usize,
    /// Dom0's width.
    pub width: Width,
    /// Frames beyond RAM.
    pub io: IoMemory,
}

impl Default for Layout {
    /// A small PC: 4 MiB, of which dom0 has 2; APIC and I/O APIC where they always are.
    fn default() -> Self {
        let page = |mfn| Mfn(mfn)..Mfn(mfn + 1);
        Self {
            frames: Pages(0x400),
            dom0: Mfn(0x200)..Mfn(0x400),
            vcpus: 1,
            width: Width::Bits64,
            io: IoMemory {
                end: Mfn(1 << 28),
                denied: vec![Mfn(0xf_ee00)..Mfn(0xf_ef00)],
                read_only: vec![page(0xf_ec00)],
            },
        }
    }
}

/// Frames of the first megabyte (mm.c, `arch_init_memory`).
const LOW_IO: u64 = 0x100;

/// A machine under Xen.
#[derive(Clone, Debug)]
pub struct Xen {
    pub(super) memory: Memory,
    pub(super) frames: FrameTable,
    pub(super) vcpus: Vec<Vcpu>,
    /// Guest frame of each machine frame, plus one; 0 where there is none.
    pub(super) machine_to_phys: Words,
    pub(super) io: IoMemory,
    pub(super) tolls: Tolls,
    /// Dom0's frames that are still unused.
    pub(super) next_free: Range<u64>,
    pub(super) shared_info: SharedInfo,
    /// Dom0's, which is the only guest that runs.
    pub(super) width: Width,
    /// Domains, each with its p2m where it is translated.
    domains: BTreeMap<DomainId, Option<Range<Mfn>>>,
}

impl Xen {
    /// Boots a machine with a dom0 on it.
    ///
    /// # Panics
    /// When the layout makes no machine: dom0 outside of RAM, or too small for its own tables.
    #[must_use]
    pub fn boot(layout: Layout) -> Self {
        let frames = usize::try_from(layout.frames.get()).unwrap_or(0);
        let mut xen = Self {
            memory: Memory::default(),
            frames: FrameTable::new(frames),
            vcpus: Vec::new(),
            machine_to_phys: Words::default(),
            io: layout.io,
            tolls: Tolls::default(),
            shared_info: SharedInfo::default(),
            width: layout.width,
            domains: BTreeMap::from([(DomainId::DOM0, None)]),
            next_free: layout.dom0.start.0..layout.dom0.end.0,
        };
        xen.own(0..LOW_IO, DomainId::IO);
        xen.own(xen.next_free.clone(), DomainId::DOM0);
        let root = xen.build_direct_map();
        for _ in 0..layout.vcpus {
            let taken = xen.get_page_and_type(root, PageType::Table(Level::L4), DomainId::DOM0);
            assert!(taken.is_ok(), "dom0's own tables are refused: {taken:?}");
            xen.add_vcpu(root);
        }
        xen.tolls = Tolls::default();
        xen
    }

    fn own(&mut self, range: Range<u64>, owner: DomainId) {
        self.frames
            .fill(Mfn(range.start)..Mfn(range.end), Frame::new(owner));
        if let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end))
            && owner == DomainId::DOM0
        {
            self.machine_to_phys.fill(start..end, range.start + 1, 1);
        }
    }

    fn add_vcpu(&mut self, root: Mfn) {
        self.vcpus.push(Vcpu {
            domain: DomainId::DOM0,
            guest_table: root,
            guest_table_user: None,
            gdt: Vec::new(),
            guest_cr4: 0,
            info: VcpuInfo::default(),
            in_upcall: false,
            cpu: Cpu {
                root,
                ..Cpu::default()
            },
        });
    }

    /// Allocates an unused frame of dom0. Frames are not given back.
    ///
    /// # Panics
    /// When dom0 has no more.
    pub fn allocate(&mut self) -> Mfn {
        let next = self.next_free.next();
        Mfn(next.unwrap_or_else(|| panic!("dom0 has used up its frames")))
    }

    /// Allocates consecutive unused frames of dom0; returns the first.
    ///
    /// # Panics
    /// When dom0 has not as many.
    pub fn allocate_row(&mut self, frames: Pages) -> Mfn {
        let first = self.next_free.start;
        assert!(
            frames.get() <= self.next_free.end - first,
            "dom0 has used up its frames"
        );
        self.next_free.start = first + frames.get();
        Mfn(first)
    }

    /// States of all frames.
    #[must_use]
    pub const fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// The vCPUs of the machine.
    #[must_use]
    pub fn vcpus(&self) -> &[Vcpu] {
        &self.vcpus
    }

    /// Guest frame of a machine frame, as the guest reads it.
    #[must_use]
    pub fn machine_to_phys(&self, mfn: Mfn) -> Option<u64> {
        let number = self.machine_to_phys.get(usize::try_from(mfn.0).ok()?);
        number.checked_sub(1)
    }

    /// Adds a domain without a vCPU. The frames become its own; they have no owner yet.
    pub fn add_domain(&mut self, domain: DomainId, frames: Range<Mfn>) {
        self.domains.insert(domain, None);
        self.own(frames.start.0..frames.end.0, domain);
    }

    /// Adds an HVM or PVH domain: Xen translates its frame numbers, of which number 0 is the first of these frames.
    pub fn add_translated_domain(&mut self, domain: DomainId, frames: Range<Mfn>) {
        self.own(frames.start.0..frames.end.0, domain);
        self.domains.insert(domain, Some(frames));
    }

    /// A domain's p2m, where it is translated (`paging_mode_translate`, `paging_mode_external`).
    pub(super) fn p2m(&self, domain: DomainId) -> Option<&Range<Mfn>> {
        self.domains.get(&domain)?.as_ref()
    }

    /// Shares a page of Xen's heap with dom0, as the shared info page is: writable in use from the start.
    pub fn share_heap_page(&mut self, mfn: Mfn) {
        let shared = Frame {
            xen_heap: true,
            page_type: PageType::Writable,
            type_count: 1,
            validated: true,
            ..Frame::new(DomainId::DOM0)
        };
        self.frames.fill(mfn..Mfn(mfn.0 + 1), shared);
    }

    pub(super) fn has_domain(&self, domain: DomainId) -> bool {
        self.domains.contains_key(&domain)
    }

    pub(super) fn vcpus_of(&self, domain: DomainId) -> Vec<VcpuId> {
        let all = self.vcpus.iter().enumerate();
        let own = all.filter(|(_, vcpu)| vcpu.domain == domain);
        own.map(|(index, _)| VcpuId(index)).collect()
    }

    /// The slots of a table that hold a present entry.
    pub fn present(&self, table: Mfn) -> impl Iterator<Item = (usize, PageTableEntry)> {
        let all = (0..ENTRIES).map(move |slot| (slot, self.memory.entry(table, slot)));
        all.filter(|(_, entry)| entry.is_present())
    }
}
