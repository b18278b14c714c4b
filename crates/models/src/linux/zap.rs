//! Getting and clearing entries, by every mechanism there is. Source: Linux 6.1, mm/memory.c, `zap_pte_range`;
//! arch/x86/include/asm/pgtable_64.h, `native_ptep_get_and_clear`; include/linux/pgtable.h, `ptep_get_and_clear`;
//! arch/x86/include/asm/pgtable-3level.h. The mechanisms do what those of the lab's probe do
//! (`guests/xen-probe/mechanism.c`).
//!
//! The loop around them, with its own look at each entry, is the same for all and does not count as their reading.

use pagetoll_units::{MachineAddress, VirtualAddress};

use super::address_space::{AddressSpace, Entries};
use super::kernel::Kernel;
use crate::Error;
use crate::x86::{ENTRIES, Flags, PageTableEntry};
use crate::xen::{FlushTargets, FlushType, ForeignDomain, MmuUpdate, VaMapping, Width, Write};

/// `MMU_NORMAL_PT_UPDATE` and `MMU_PT_UPDATE_PRESERVE_AD` (xen/include/public/xen.h).
const NORMAL: u64 = 0;
const PRESERVE_AD: u64 = 2;

/// A way to get and clear entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetAndClear {
    /// `xchg` to the read-only table; Xen emulates it.
    Emulate,
    /// Read, then the `set_pte` PV operation.
    SetPte,
    /// Read, then `update_va_mapping`.
    UpdateVa,
    /// Read, then `set_pte` in lazy MMU mode.
    Lazy,
    /// Read, then one array of `MMU_NORMAL_PT_UPDATE`.
    MmuUpdate,
    /// Read, one array of `MMU_PT_UPDATE_PRESERVE_AD` with 0, then read A and D back.
    PreserveAd,
    /// The proposed hypercall `pte_xchg`.
    Xchg,
    /// 32-bit: `xchg` of the lower half, a store to the upper one.
    XchgAndStore,
    /// 32-bit: read, then `cmpxchg8b`, until nothing came between.
    Cmpxchg8b,
}

impl GetAndClear {
    /// All mechanisms.
    pub const ALL: [Self; 9] = [
        Self::Emulate,
        Self::SetPte,
        Self::UpdateVa,
        Self::Lazy,
        Self::MmuUpdate,
        Self::PreserveAd,
        Self::Xchg,
        Self::XchgAndStore,
        Self::Cmpxchg8b,
    ];

    /// Width of the kernels that use it.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Self::XchgAndStore | Self::Cmpxchg8b => Width::Pae32,
            _ => Width::Bits64,
        }
    }
}

/// Mechanism and batch of clearing a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zap {
    /// Mechanism that clears entries.
    pub mechanism: GetAndClear,
    /// Number of entries at a time, never beyond one table.
    pub batch: u32,
}

impl Kernel {
    /// Gets and clears every entry of an address space, and passes on what each was and maps.
    ///
    /// # Errors
    /// Xen refuses to clear an entry.
    pub fn zap_page_range(
        &mut self,
        space: AddressSpace,
        zap: Zap,
        mut visit: impl FnMut(VirtualAddress, PageTableEntry),
    ) -> Result<(), Error> {
        let batch = batch_size(zap.batch)?;
        let tables: Vec<_> = self.page_tables(space).collect();
        let mut old = Vec::with_capacity(batch);
        for entries in tables.into_iter().flat_map(|table| table.batches(batch)) {
            old.clear();
            self.get_and_clear(entries, zap.mechanism, &mut old)?;
            for ((_, address), entry) in entries.each().zip(&old) {
                visit(address, *entry);
            }
        }
        Ok(())
    }

    /// Gets and clears entries; adds what they were to `old`.
    ///
    /// # Errors
    /// Xen refuses to clear an entry, or to emulate.
    pub fn get_and_clear(
        &mut self,
        entries: Entries,
        mechanism: GetAndClear,
        old: &mut Vec<PageTableEntry>,
    ) -> Result<(), Error> {
        match mechanism {
            GetAndClear::Emulate => self.each_of(entries, old, Self::emulated_xchg),
            GetAndClear::SetPte => self.each_of(entries, old, Self::read_and_set_pte),
            GetAndClear::UpdateVa => self.update_va(entries, old),
            GetAndClear::Lazy => self.lazily(entries, old),
            GetAndClear::MmuUpdate => self.read_and_request(entries, NORMAL, old),
            GetAndClear::PreserveAd => self.preserve_ad(entries, old),
            GetAndClear::Xchg => self.pte_xchg(entries, old),
            GetAndClear::XchgAndStore => self.each_of(entries, old, Self::xchg_and_store),
            GetAndClear::Cmpxchg8b => self.each_of(entries, old, Self::cmpxchg8b),
        }
    }

    fn each_of(
        &mut self,
        entries: Entries,
        old: &mut Vec<PageTableEntry>,
        one: fn(&mut Self, MachineAddress) -> Result<PageTableEntry, Error>,
    ) -> Result<(), Error> {
        for (place, _) in entries.each() {
            old.push(one(self, place)?);
        }
        Ok(())
    }

    fn emulated_xchg(&mut self, place: MachineAddress) -> Result<PageTableEntry, Error> {
        let here = self.lowmem(place);
        let (ended, _) = self.xen.write(self.vcpu, here, 8, Write::Exchange(0));
        self.done(here, ended).map(PageTableEntry)
    }

    fn read_and_set_pte(&mut self, place: MachineAddress) -> Result<PageTableEntry, Error> {
        let old = self.read_entry(place)?;
        self.set_pte(place, PageTableEntry::EMPTY)?;
        Ok(old)
    }

    fn read_entry(&mut self, place: MachineAddress) -> Result<PageTableEntry, Error> {
        self.entries_read += 1;
        let here = self.lowmem(place);
        let ended = self.xen.load(self.vcpu, here, 8);
        self.done(here, ended).map(PageTableEntry)
    }

    fn update_va(&mut self, entries: Entries, old: &mut Vec<PageTableEntry>) -> Result<(), Error> {
        for (place, address) in entries.each() {
            old.push(self.read_entry(place)?);
            let asked = VaMapping {
                address,
                value: PageTableEntry::EMPTY,
                flush: (FlushType::None, FlushTargets::Local),
                domain: None,
            };
            let outcome = self.xen.update_va_mapping(self.vcpu, asked);
            self.must("update_va_mapping", outcome)?;
        }
        Ok(())
    }

    fn lazily(&mut self, entries: Entries, old: &mut Vec<PageTableEntry>) -> Result<(), Error> {
        self.enter_lazy_mmu();
        self.each_of(entries, old, Self::read_and_set_pte)?;
        self.leave_lazy_mmu()
    }

    fn read_and_request(
        &mut self,
        entries: Entries,
        command: u64,
        old: &mut Vec<PageTableEntry>,
    ) -> Result<(), Error> {
        self.read_entries(entries, old)?;
        let mut requests = [MmuUpdate { ptr: 0, val: 0 }; ENTRIES];
        let requests = &mut requests[..entries.count];
        for (request, (place, _)) in requests.iter_mut().zip(entries.each()) {
            request.ptr = place.0 | command;
        }
        self.mmu_update(requests)
    }

    /// Reads the rest of the entries after the update: an entry that is not present does not change any more.
    fn preserve_ad(
        &mut self,
        entries: Entries,
        old: &mut Vec<PageTableEntry>,
    ) -> Result<(), Error> {
        let first = old.len();
        self.read_and_request(entries, PRESERVE_AD, old)?;
        let mut left = [0; ENTRIES];
        let left = &mut left[..entries.count];
        self.load_entries(entries, left)?;
        for (entry, &left) in old[first..].iter_mut().zip(left.iter()) {
            let bits = PageTableEntry(left).flags() & (Flags::ACCESSED | Flags::DIRTY);
            *entry = entry.with(bits);
        }
        Ok(())
    }

    fn pte_xchg(&mut self, entries: Entries, old: &mut Vec<PageTableEntry>) -> Result<(), Error> {
        let mut requests = [MmuUpdate { ptr: 0, val: 0 }; ENTRIES];
        let requests = &mut requests[..entries.count];
        for (request, (place, _)) in requests.iter_mut().zip(entries.each()) {
            request.ptr = place.0;
        }
        let outcome = self.xen.pte_xchg(self.vcpu, requests, ForeignDomain::NONE);
        self.must("pte_xchg", outcome)?;
        old.extend(requests.iter().map(|request| PageTableEntry(request.val)));
        Ok(())
    }

    /// The lower half holds P, so the entry is gone with it and the upper half can wait.
    fn xchg_and_store(&mut self, place: MachineAddress) -> Result<PageTableEntry, Error> {
        let lower = self.lowmem(place);
        let upper = VirtualAddress(lower.0 + 4);
        let (ended, _) = self.xen.write(self.vcpu, lower, 4, Write::Exchange(0));
        let low = self.done(lower, ended)?;
        self.entries_read += 1;
        let ended = self.xen.load(self.vcpu, upper, 4);
        let high = self.done(upper, ended)?;
        let (ended, _) = self.xen.write(self.vcpu, upper, 4, Write::Move(0));
        self.done(upper, ended)?;
        Ok(PageTableEntry(high << 32 | low))
    }

    fn cmpxchg8b(&mut self, place: MachineAddress) -> Result<PageTableEntry, Error> {
        let here = self.lowmem(place);
        let mut expected = self.read_entry(place)?.0;
        loop {
            let write = Write::CompareExchange {
                old: expected,
                new: 0,
            };
            let (ended, _) = self.xen.write(self.vcpu, here, 8, write);
            match self.done(here, ended)? {
                found if found == expected => return Ok(PageTableEntry(found)),
                found => expected = found,
            }
        }
    }
}

/// A batch as a number of entries.
pub(super) fn batch_size(batch: u32) -> Result<usize, Error> {
    let size = usize::try_from(batch).unwrap_or(usize::MAX);
    if size == 0 || size > ENTRIES {
        return Err(Error::BatchOutOfRange { batch });
    }
    Ok(size)
}
