//! The IOMMU's translations: `struct iommu_domain`, by pages of 4 KiB.

use std::collections::{BTreeMap, BTreeSet};

use super::PAGE;

/// Accesses that a device may make to a page: `IOMMU_READ` and `IOMMU_WRITE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
}

/// A translation.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pfn: u64,
    access: Access,
    size: u64,
}

/// The translations that a device's accesses take.
#[derive(Clone, Debug)]
pub struct Domain {
    entries: BTreeMap<u64, Entry>,
    /// Tables of 4 KiB entries, by the first page that they translate. One stays when all its entries were cleared.
    tables: BTreeSet<u64>,
    /// Tables down to an entry of 4 KiB.
    levels: u64,
}

/// Reads of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Tables.
    pub levels: u64,
    /// Set where the look-up ends at an entry of 4 KiB.
    pub is_small: bool,
}

/// Pages of a leaf entry, and how many tables less than for one of 4 KiB are read down to it.
const LEAVES: [(u64, u64); 3] = [(1 << 18, 2), (TABLE, 1), (1, 0)];
/// Pages that a table of 4 KiB entries translates.
const TABLE: u64 = 1 << 9;

impl Default for Domain {
    /// An IOMMU of 39 bits.
    fn default() -> Self {
        Self::with_levels(3)
    }
}

impl Domain {
    /// An IOMMU by the number of tables down to an entry of 4 KiB: 3 for 39 bits, 4 for 48 (`agaw_to_level`).
    #[must_use]
    pub const fn with_levels(levels: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            tables: BTreeSet::new(),
            levels,
        }
    }

    /// Maps contiguous frames by the largest entries that fit, and gives how many were written: `iommu_map`,
    /// `iommu_pgsize`, `__domain_mapping`.
    pub fn map(&mut self, iova: u64, pfn: u64, pages: u64, access: Access) -> u64 {
        let first = iova / PAGE;
        let (mut done, mut written) = (0, 0);
        while done < pages {
            let aligned = |size: u64| ((first + done) | (pfn + done)) & (size - 1) == 0;
            let fits = |(size, _): &(u64, u64)| aligned(*size) && *size <= pages - done;
            let (size, _) = LEAVES.into_iter().find(fits).unwrap_or((1, 0));
            self.make_place(first + done, size);
            written += 1;
            for page in done..done + size {
                let pfn = pfn + page;
                self.entries
                    .insert(first + page, Entry { pfn, access, size });
            }
            done += size;
        }
        written
    }

    /// An entry of 4 KiB stands in a table; a larger one takes the place of those that it covers.
    fn make_place(&mut self, page: u64, size: u64) {
        if size == 1 {
            self.tables.insert(page / TABLE * TABLE);
            return;
        }
        let covered: Vec<_> = self.tables.range(page..page + size).copied().collect();
        for table in covered {
            self.tables.remove(&table);
        }
    }

    /// Takes translations out and gives how many entries were cleared: `iommu_unmap`, `dma_pte_clear_level`. A table
    /// that the range covers is dropped whole, by clearing the entry that leads to it.
    pub fn unmap(&mut self, iova: u64, pages: u64) -> u64 {
        let (first, end) = (iova / PAGE, iova / PAGE + pages);
        let mut cleared = 0;
        let mut page = first;
        while page < end {
            let covers = page.is_multiple_of(TABLE) && page + TABLE <= end;
            let size = match self.entries.get(&page) {
                Some(entry) if entry.size > 1 => entry.size,
                _ if covers && self.tables.remove(&page) => TABLE,
                _ => 1,
            };
            let until = end.min(page + size);
            for page in page..until {
                self.entries.remove(&page);
            }
            cleared += 1;
            page = until;
        }
        cleared
    }

    /// The frame at an address: `iommu_iova_to_phys`.
    #[must_use]
    pub fn iova_to_pfn(&self, iova: u64) -> Option<u64> {
        self.entries.get(&(iova / PAGE)).map(|entry| entry.pfn)
    }

    /// Reads of a look-up of an address: `pfn_to_dma_pte`. Without a mapping the look-up ends at the first table.
    #[must_use]
    pub fn walk(&self, iova: u64) -> Walk {
        let size = self.entries.get(&(iova / PAGE)).map(|entry| entry.size);
        let leaf = LEAVES.iter().find(|(pages, _)| Some(*pages) == size);
        Walk {
            levels: leaf.map_or(1, |(_, less)| self.levels - less),
            is_small: size == Some(1),
        }
    }

    /// The frame that a device's access ends at; `None`: the IOMMU lets it not through.
    #[must_use]
    pub fn translate(&self, iova: u64, wanted: Access) -> Option<u64> {
        let Entry { pfn, access, .. } = self.entries.get(&(iova / PAGE))?;
        let may = (access.read || !wanted.read) && (access.write || !wanted.write);
        may.then_some(*pfn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: Access = Access {
        read: true,
        write: true,
    };

    #[test]
    fn entries_are_as_large_as_both_addresses_allow() {
        let mut domain = Domain::default();
        assert_eq!(domain.map(0, 512, 1024, RW), 2);
        assert_eq!(domain.map(1 << 30, 1, 1024, RW), 1024);
        assert_eq!(domain.walk(0).levels, 2);
        let small = domain.walk((1 << 30) + 5 * PAGE);
        assert_eq!((small.levels, small.is_small), (3, true));
    }

    #[test]
    fn a_wider_address_is_a_table_more_for_every_size() {
        let mut domain = Domain::with_levels(4);
        domain.map(0, 0, 1 << 18, RW);
        domain.map(1 << 31, 512, 512, RW);
        assert_eq!((domain.walk(0).levels, domain.walk(1 << 31).levels), (2, 3));
    }

    #[test]
    fn a_table_is_dropped_whole_where_the_range_covers_it_and_stays_where_not() {
        let mut domain = Domain::default();
        domain.map(0, 1, 1024, RW);
        assert_eq!(domain.unmap(0, 512), 1);
        assert_eq!(domain.unmap(512 * PAGE, 256), 256);
        assert_eq!(domain.unmap(768 * PAGE, 256), 256);
    }
}
