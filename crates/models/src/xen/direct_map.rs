//! Dom0's direct map: what it finds at boot is as Linux has it once it runs, every frame mapped at [`DIRECT_MAP`] plus
//! its number, writable but for the page tables. Source: xen/arch/x86/pv/dom0_build.c, 4.17; Linux 6.1,
//! arch/x86/xen/mmu_pv.c, `xen_setup_kernel_pagetable`.

use std::ops::Range;

use pagetoll_units::{Mfn, VirtualAddress};

use super::machine::Xen;
use crate::x86::{ENTRIES, Flags, Level, PageTableEntry, slot};

/// Start of the direct map: Linux's `__PAGE_OFFSET_BASE_L4` (arch/x86/include/asm/page_64_types.h, 6.1).
pub const DIRECT_MAP: VirtualAddress = VirtualAddress(0xffff_8880_0000_0000);

/// Flags of dom0's direct map as Xen stores them, but for the right to write.
const DIRECT_MAP_FLAGS: Flags = Flags::PRESENT
    .union(Flags::ACCESSED)
    .union(Flags::DIRTY)
    .union(Flags::NO_EXECUTE);

impl Xen {
    /// Address of a frame in dom0's direct map.
    #[must_use]
    pub const fn direct(&self, mfn: Mfn) -> VirtualAddress {
        VirtualAddress(DIRECT_MAP.0 + mfn.address(0).0)
    }

    /// Tables that map all of dom0's frames, and the tables themselves read-only.
    pub(super) fn build_direct_map(&mut self) -> Mfn {
        let all = self.next_free.clone();
        let root = self.allocate();
        let tables = [Level::L3, Level::L2, Level::L1].map(|level| self.tables_of(level, &all));
        self.hook(Level::L4, &[root], &tables[0], &all);
        self.hook(Level::L3, &tables[0], &tables[1], &all);
        self.hook(Level::L2, &tables[1], &tables[2], &all);
        let first_writable = self.next_free.start;
        self.map_frames(&tables[2], &all, DIRECT_MAP_FLAGS | Flags::WRITABLE);
        self.map_frames(&tables[2], &(all.start..first_writable), DIRECT_MAP_FLAGS);
        root
    }

    /// New tables of a level for the direct map of these frames, in the order of what they map.
    fn tables_of(&mut self, level: Level, frames: &Range<u64>) -> Vec<Mfn> {
        let count = self.span(level, frames.end - 1) - self.span(level, frames.start) + 1;
        (0..count).map(|_| self.allocate()).collect()
    }

    /// Number of the table of a level that has a frame's part of the direct map, counted from address 0.
    fn span(&self, level: Level, frame: u64) -> u64 {
        self.direct(Mfn(frame)).page() >> (9 * level as u32)
    }

    /// Refers to tables from those of the level above.
    fn hook(&mut self, level: Level, above: &[Mfn], tables: &[Mfn], frames: &Range<u64>) {
        let below = level.below().unwrap_or(Level::L1);
        let flags = Flags::PRESENT | Flags::WRITABLE | Flags::USER | Flags::ACCESSED;
        let first = self.span(level, frames.start) << 9;
        for (span, &table) in (self.span(below, frames.start)..).zip(tables) {
            let place = usize::try_from(span - first).unwrap_or(usize::MAX);
            let entry = PageTableEntry::new(table, flags);
            self.memory
                .set_entry(above[place / ENTRIES], place % ENTRIES, entry);
        }
    }

    /// Maps frames in the direct map's L1 tables.
    fn map_frames(&mut self, tables: &[Mfn], frames: &Range<u64>, flags: Flags) {
        let first = self.span(Level::L1, frames.start);
        let mut next = frames.start;
        while next < frames.end {
            let start = slot(self.direct(Mfn(next)), Level::L1);
            let left = usize::try_from(frames.end - next).unwrap_or(ENTRIES);
            let end = ENTRIES.min(start + left);
            let table = usize::try_from(self.span(Level::L1, next) - first).unwrap_or(usize::MAX);
            let entry = PageTableEntry::new(Mfn(next), flags);
            self.memory.set_entries(tables[table], start..end, entry);
            next += (end - start) as u64;
        }
    }
}
