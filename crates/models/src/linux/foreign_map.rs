//! A program that maps all of a domain's memory in batches and then unmaps it, as the sender of a migration does and as
//! the program does that was published with the finding: arguments domain and batch size, `xenforeignmemory_map` with
//! `PROT_READ` for all batches, then `xenforeignmemory_unmap` for all (xen-devel, February 2026).
//!
//! The domain is translated, and there is nothing in the kernel's way: no other mapping of the process is near.

use std::ops::Range;

use pagetoll_units::{Mfn, Pages, VirtualAddress};

use super::address_space::{AddressSpace, TABLE_SPAN};
use super::kernel::Kernel;
use super::privcmd::READ_ONLY_SPECIAL;
use super::route_run::{Comparison, RouteRun};
use super::unmap::within_reach;
use super::zap::{GetAndClear, Zap, batch_size};
use crate::Error;
use crate::x86::{ENTRIES, Flags, PageTableEntry};
use crate::xen::{DomainId, Layout};

/// The domain that is mapped.
const DOMAIN: DomainId = DomainId(1);

/// Sizes of the program's mappings, and the kernel's way to unmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignMap {
    /// The domain's memory.
    pub pages: Pages,
    /// Pages of one mapping.
    pub batch: Pages,
    /// Mechanism and batch of clearing entries.
    pub zap: Zap,
}

/// Tolls and checks of both halves of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignMapRuns {
    /// Mapping.
    pub map: RouteRun,
    /// Unmapping, with tables and flushes.
    pub unmap: RouteRun,
    /// Mappings that were made, and unmapped.
    pub mappings: u64,
}

/// Maps a domain's memory into a process of dom0's and unmaps it.
///
/// # Errors
/// Too many pages, a batch that is none, or a mechanism of 32-bit kernels.
pub fn foreign_map(asked: ForeignMap) -> Result<ForeignMapRuns, Error> {
    within_reach(asked.pages)?;
    within_reach(asked.batch)?;
    batch_size(asked.zap.batch)?;
    let (layout, domu) = layout(asked);
    let mut kernel = Kernel::boot(layout)?;
    kernel.xen.add_translated_domain(DOMAIN, domu.clone());
    let program = Program {
        asked,
        first: domu.start,
    };
    let map = program.map(&mut kernel)?;
    let mut unmap = program.unmap(&mut kernel)?;
    unmap.checked.wrong_counts = wrong_counts(&kernel, &domu);
    Ok(ForeignMapRuns {
        map,
        unmap,
        mappings: asked.pages.get().div_ceil(asked.batch.get()),
    })
}

/// A dom0 with room for the tables, and the domain's frames behind it.
fn layout(asked: ForeignMap) -> (Layout, Range<Mfn>) {
    let pages = asked.pages.get();
    let dom0 = Mfn(0x100)..Mfn(0x100 + pages / ENTRIES as u64 * 2 + 0x400);
    let domu = dom0.end..Mfn(dom0.end.0 + pages);
    let layout = Layout {
        frames: Pages(domu.end.0),
        dom0,
        width: asked.zap.mechanism.width(),
        ..Layout::default()
    };
    (layout, domu)
}

/// Frames of the domain that still have references.
fn wrong_counts(kernel: &Kernel, domu: &Range<Mfn>) -> u64 {
    let all = (domu.start.0..domu.end.0).map(Mfn);
    let references = |mfn| kernel.xen.frames().get(mfn).map(|frame| frame.references);
    all.filter(|&mfn| references(mfn) != Some(1)).count() as u64
}

/// The program, on a domain whose frames begin somewhere.
struct Program {
    asked: ForeignMap,
    first: Mfn,
}

impl Program {
    fn start() -> u64 {
        AddressSpace::new(0).start.0
    }

    /// Its mappings, by the domain's frame numbers.
    fn batches(&self) -> impl Iterator<Item = Range<u64>> {
        let (pages, batch) = (self.asked.pages.get(), self.asked.batch.get());
        let numbers = 0..pages.div_ceil(batch);
        numbers.map(move |number| number * batch..pages.min((number + 1) * batch))
    }

    fn space(gfns: &Range<u64>) -> AddressSpace {
        AddressSpace {
            start: VirtualAddress(Self::start() + (gfns.start << 12)),
            pages: gfns.end - gfns.start,
        }
    }

    fn map(&self, kernel: &mut Kernel) -> Result<RouteRun, Error> {
        let before = kernel.tolls();
        let mut checked = Comparison::default();
        for gfns in self.batches() {
            checked.items += gfns.end - gfns.start;
            let start = Self::space(&gfns).start;
            checked.wrong_value += kernel.mmap_batch(start, DOMAIN, gfns)?;
        }
        Ok(RouteRun {
            items: self.asked.pages.get(),
            tolls: kernel.tolls() - before,
            checked,
        })
    }

    fn unmap(&self, kernel: &mut Kernel) -> Result<RouteRun, Error> {
        let before = kernel.tolls();
        let mut checked = Comparison::default();
        for gfns in self.batches() {
            let space = Self::space(&gfns);
            let mut gfn = gfns.start;
            kernel.zap_page_range(space, self.asked.zap, |_, old| {
                checked.compare(self.entry(gfn), old);
                gfn += 1;
            })?;
            self.free_tables(kernel, &gfns)?;
            kernel.flush_tlb_range(space)?;
        }
        Ok(RouteRun {
            items: self.asked.pages.get(),
            tolls: kernel.tolls() - before,
            checked,
        })
    }

    /// The entry that Xen makes of a frame.
    fn entry(&self, gfn: u64) -> PageTableEntry {
        let entry = PageTableEntry::new(Mfn(self.first.0 + gfn), READ_ONLY_SPECIAL);
        match self.asked.zap.mechanism {
            GetAndClear::XchgAndStore | GetAndClear::Cmpxchg8b => entry,
            _ => entry.with(Flags::GLOBAL),
        }
    }

    /// Tables that no later mapping needs.
    fn free_tables(&self, kernel: &mut Kernel, gfns: &Range<u64>) -> Result<(), Error> {
        let space = Self::space(gfns);
        let is_last = gfns.end == self.asked.pages.get();
        for (address, _) in space.tables().collect::<Vec<_>>() {
            let ends = (address.0 | (TABLE_SPAN - 1)) < space.end();
            if ends || is_last {
                kernel.free_pte(address)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(pages: u64, batch: u64, mechanism: GetAndClear, zap: u32) -> ForeignMapRuns {
        let mapped = foreign_map(ForeignMap {
            pages: Pages(pages),
            batch: Pages(batch),
            zap: Zap {
                mechanism,
                batch: zap,
            },
        })
        .unwrap();
        assert_eq!(
            (mapped.map.checked.failed(), mapped.map.checked.items),
            (0, pages)
        );
        assert_eq!(
            (mapped.unmap.checked.failed(), mapped.unmap.checked.items),
            (0, pages)
        );
        mapped
    }

    #[test]
    fn frames_are_mapped_by_sixteens_and_each_block_is_flushed() {
        let mapped = mapped(2048, 1024, GetAndClear::Emulate, 1);
        let tolls = mapped.map.tolls;
        // 16 a call, and one for each of the four tables and two upper ones.
        assert_eq!(tolls.mmu_update, 2048 / 16 + 4 + 2);
        // Xen flushes whenever an upper entry changes.
        assert_eq!((tolls.mmuext_op, tolls.flushes_local), (4, 4 + 6));
        assert_eq!(
            (tolls.multicall, tolls.subcalls, tolls.promotions),
            (4, 8, 4 + 2)
        );
        assert_eq!((tolls.p2m_lookups, mapped.mappings), (2048, 2));
    }

    #[test]
    fn emulation_traps_for_each_page_and_lazy_mode_calls_for_31() {
        let emulated = mapped(2048, 512, GetAndClear::Emulate, 1).unmap.tolls;
        assert_eq!((emulated.emulations, emulated.page_faults), (2048, 2048));
        let lazy = mapped(2048, 512, GetAndClear::Lazy, 512).unmap.tolls;
        assert_eq!(lazy.emulations, 0);
        // The four tables' entries above them, too.
        assert_eq!(lazy.mmu_update, 4 * 17 + 4);
        assert_eq!((lazy.demotions, lazy.multicall), (4, 4));
        // A flush of everything for each of the four mappings, and one whenever an upper entry changes.
        assert_eq!(lazy.flushes_local, 4 + 4);
    }

    #[test]
    fn mappings_that_share_tables_and_an_odd_rest_work_too() {
        for mechanism in GetAndClear::ALL {
            let both = mapped(1500, 100, mechanism, 32);
            assert_eq!(both.mappings, 15);
            assert_eq!(both.unmap.tolls.demotions, 3);
        }
        let small = mapped(64, 16, GetAndClear::PreserveAd, 32).unmap.tolls;
        assert_eq!((small.invlpg_local, small.mmu_update), (64, 4 + 1));
    }
}
