//! Mapping another domain's frames into a process. Source: Linux 6.1, drivers/xen/privcmd.c,
//! `privcmd_ioctl_mmap_batch` and `mmap_batch_fn`; arch/x86/xen/mmu_pv.c, `xen_remap_pfn` and `remap_area_pfn_pte_fn`.

use std::ops::Range;

use pagetoll_units::{Mfn, VirtualAddress};

use super::address_space::{AddressSpace, Entries};
use super::kernel::Kernel;
use crate::Error;
use crate::x86::{Flags, Level, PageTableEntry, slot};
use crate::xen::{Batch, DomainId, ForeignDomain, MmuUpdate};

/// Entries that go in one hypercall (`REMAP_BATCH_SIZE`).
const REMAP_BATCH: usize = 16;
/// Frame numbers that `gather_array` keeps in one page, and that are mapped with one flush at the end.
const BLOCK: u64 = 512;
/// `PAGE_READONLY` and `pte_mkspecial` (arch/x86/include/asm/pgtable_types.h).
pub(super) const READ_ONLY_SPECIAL: Flags = Flags::PRESENT
    .union(Flags::USER)
    .union(Flags::ACCESSED)
    .union(Flags::NO_EXECUTE)
    .union(Flags::from_bits_retain(1 << 9));

impl Kernel {
    /// Maps frames of a domain, by its own numbers and read-only, from an address on. Returns how many Xen refused.
    ///
    /// # Errors
    /// What the kernel needs for it is refused.
    pub fn mmap_batch(
        &mut self,
        start: VirtualAddress,
        domain: DomainId,
        gfns: Range<u64>,
    ) -> Result<u64, Error> {
        let mut refused = 0;
        let mut next = gfns.start;
        while next < gfns.end {
            let end = gfns.end.min(next + BLOCK);
            let address = VirtualAddress(start.0 + ((next - gfns.start) << 12));
            refused += self.remap_pfn(address, domain, next..end)?;
            next = end;
        }
        Ok(refused)
    }

    fn remap_pfn(
        &mut self,
        start: VirtualAddress,
        domain: DomainId,
        gfns: Range<u64>,
    ) -> Result<u64, Error> {
        let pages = gfns.end - gfns.start;
        let space = AddressSpace { start, pages };
        let mut refused = 0;
        let mut gfn = gfns.start;
        let mut requests = Vec::with_capacity(REMAP_BATCH);
        for (address, count) in space.tables().collect::<Vec<_>>() {
            for entries in self.pte_alloc(address, count)?.each() {
                requests.push(MmuUpdate {
                    ptr: entries.0.0,
                    val: PageTableEntry::new(Mfn(gfn), READ_ONLY_SPECIAL).0,
                });
                gfn += 1;
                if requests.len() == REMAP_BATCH {
                    refused += self.update_foreign(&requests, domain);
                    requests.clear();
                }
            }
        }
        if !requests.is_empty() {
            refused += self.update_foreign(&requests, domain);
        }
        self.flush_tlb_all()?;
        Ok(refused)
    }

    /// Sends requests, and again from behind each one that is refused.
    fn update_foreign(&mut self, requests: &[MmuUpdate], domain: DomainId) -> u64 {
        let mut left = requests;
        let mut refused = 0;
        while !left.is_empty() {
            let foreign = ForeignDomain(u32::from(domain.0));
            let outcome = self.xen.mmu_update(self.vcpu, Batch::all(left), foreign);
            self.take_upcalls();
            let failed = usize::from(outcome.result.is_err());
            refused += failed as u64;
            let done = usize::try_from(outcome.done).unwrap_or(usize::MAX);
            left = left.get(done + failed..).unwrap_or_default();
        }
        refused
    }

    /// Entries of an address's L1 table, which is made if there is none.
    fn pte_alloc(&mut self, address: VirtualAddress, count: usize) -> Result<Entries, Error> {
        let table = match self.table(address, Level::L1) {
            Some(table) => table,
            None => {
                let table = self.table_page()?;
                self.alloc_pte(address, table)?;
                table
            }
        };
        let place = table.address(slot(address, Level::L1) as u64 * 8);
        Ok(Entries {
            address,
            place,
            count,
        })
    }
}
