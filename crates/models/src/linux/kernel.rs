//! The kernel itself: its machine, its vCPU, its direct map, and what it does with refusals and upcalls.
//!
//! Source: Linux 6.1, arch/x86/xen/mmu_pv.c, `make_lowmem_page_readonly`; drivers/xen/events/events_base.c,
//! `__xen_evtchn_do_upcall`.

use std::collections::BTreeMap;

use pagetoll_units::{Mfn, VirtualAddress};

use super::multicalls::Multicalls;
use super::switch_to::TLS_ENTRIES;
use crate::Error;
use crate::x86::{Flags, PageFault, PageTableEntry};
use crate::xen::{
    Batch, Descriptor, FlushTargets, FlushType, ForeignDomain, Layout, MmuUpdate, Native, Outcome,
    Port, Tolls, VaMapping, VcpuId, Xen,
};

/// Entries of the kernel's GDT: one page of them.
const GDT_ENTRIES: u32 = 512;

/// Operations that are gathered and not sent at once (`enum paravirt_lazy_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LazyMode {
    #[default]
    None,
    Mmu,
}

/// A PV guest's kernel, on one vCPU of a machine of its own.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) xen: Xen,
    pub(super) vcpu: VcpuId,
    pub(super) multicalls: Multicalls,
    pub(super) lazy: LazyMode,
    pub(super) gdt: Mfn,
    pub(super) shadow_tls: [Descriptor; TLS_ENTRIES],
    /// Number of times that each port's event was handled.
    pub(super) handled: BTreeMap<Port, u64>,
    /// Pages that were tables.
    pub(super) free_tables: Vec<Mfn>,
    pub(super) entries_read: u64,
}

impl Kernel {
    /// Boots a machine and the kernel on its first vCPU, with a GDT that holds nothing.
    ///
    /// # Errors
    /// Xen refuses the GDT, which would be a mistake in this crate.
    ///
    /// # Panics
    /// As [`Xen::boot`].
    pub fn boot(layout: Layout) -> Result<Self, Error> {
        let mut xen = Xen::boot(layout);
        let gdt = xen.allocate();
        let mut kernel = Self {
            xen,
            vcpu: VcpuId(0),
            multicalls: Multicalls::default(),
            lazy: LazyMode::None,
            gdt,
            shadow_tls: [Descriptor::default(); TLS_ENTRIES],
            handled: BTreeMap::new(),
            free_tables: Vec::new(),
            entries_read: 0,
        };
        kernel.make_lowmem_page_readonly(gdt)?;
        let outcome = kernel.xen.set_gdt(kernel.vcpu, &[gdt], GDT_ENTRIES);
        kernel.must("set_gdt", outcome)?;
        Ok(kernel)
    }

    /// The machine.
    #[must_use]
    pub const fn xen(&self) -> &Xen {
        &self.xen
    }

    /// Tolls since the machine was booted.
    #[must_use]
    pub fn tolls(&self) -> Tolls {
        self.xen.tolls()
            + Tolls {
                entries_read: self.entries_read,
                ..Tolls::default()
            }
    }

    /// Goes on after a hypercall that must not fail; events come first.
    pub(super) fn must(&mut self, operation: &'static str, outcome: Outcome) -> Result<(), Error> {
        self.take_upcalls();
        let refused = |errno| Error::Refused { operation, errno };
        outcome.result.map_err(refused)
    }

    /// One `mmu_update` of own frames in own tables, which must not fail.
    pub(super) fn mmu_update(&mut self, requests: &[MmuUpdate]) -> Result<(), Error> {
        let batch = Batch::all(requests);
        let outcome = self.xen.mmu_update(self.vcpu, batch, ForeignDomain::NONE);
        self.must("mmu_update", outcome)
    }

    /// Takes a page's direct mapping the right to write, so that it can become a table.
    pub(super) fn make_lowmem_page_readonly(&mut self, mfn: Mfn) -> Result<(), Error> {
        let asked = self.lowmem_mapping(mfn, Flags::empty());
        let outcome = self.xen.update_va_mapping(self.vcpu, asked);
        self.must("update_va_mapping", outcome)
    }

    /// A page's direct mapping with or without the right to write (`__set_pfn_prot`).
    pub(super) fn lowmem_mapping(&self, mfn: Mfn, writable: Flags) -> VaMapping {
        let flags = Flags::PRESENT
            | Flags::ACCESSED
            | Flags::DIRTY
            | Flags::NO_EXECUTE
            | Flags::GUEST_KERNEL
            | Flags::USER
            | writable;
        VaMapping {
            address: self.xen.direct(mfn),
            value: PageTableEntry::new(mfn, flags),
            // A change of use flushes by itself, and a right that is not known yet is found by another walk.
            flush: (FlushType::None, FlushTargets::Local),
            domain: None,
        }
    }

    /// Goes on after an instruction of the kernel's own that must not fault.
    pub(super) fn done(&mut self, address: VirtualAddress, ended: Native) -> Result<u64, Error> {
        self.take_upcalls();
        match ended {
            Native::Done(found) => Ok(found),
            Native::Fault(fault) => Err(Error::KernelFault { address, fault }),
        }
    }
}

/// A page fault of the kernel's own that nothing can mend.
pub(super) fn oops(address: VirtualAddress) -> impl Fn(PageFault) -> Error {
    move |fault| Error::KernelFault { address, fault }
}
