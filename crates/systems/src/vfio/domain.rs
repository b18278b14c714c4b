//! The IOMMU's translations: `struct iommu_domain`, by pages of 4 KiB.

use std::collections::BTreeMap;

use super::PAGE;

/// What a device may do with a page: `IOMMU_READ` and `IOMMU_WRITE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// It may read.
    pub read: bool,
    /// It may write.
    pub write: bool,
}

/// A translation.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pfn: u64,
    access: Access,
    levels: u64,
}

/// The translations that a device's accesses take.
#[derive(Clone, Debug, Default)]
pub struct Domain(BTreeMap<u64, Entry>);

/// Pages of a leaf entry, and the tables that are read down to it: `struct dmar_domain` of 39 bits has three levels.
const LEAVES: [(u64, u64); 3] = [(1 << 18, 1), (1 << 9, 2), (1, 3)];

impl Domain {
    /// Maps contiguous frames by the largest entries that fit: `iommu_map`, `iommu_pgsize`.
    pub fn map(&mut self, iova: u64, pfn: u64, (pages, access): (u64, Access)) {
        let first = iova / PAGE;
        let mut done = 0;
        while done < pages {
            let aligned = |size: u64| ((first + done) | (pfn + done)) & (size - 1) == 0;
            let fits = |(size, _): &(u64, u64)| aligned(*size) && *size <= pages - done;
            let (size, levels) = LEAVES.into_iter().find(fits).unwrap_or((1, 3));
            for page in done..done + size {
                let pfn = pfn + page;
                let entry = Entry {
                    pfn,
                    access,
                    levels,
                };
                self.0.insert(first + page, entry);
            }
            done += size;
        }
    }

    /// Takes translations out: `iommu_unmap`.
    pub fn unmap(&mut self, iova: u64, pages: u64) {
        for page in iova / PAGE..iova / PAGE + pages {
            self.0.remove(&page);
        }
    }

    /// The frame at an address: `iommu_iova_to_phys`.
    #[must_use]
    pub fn iova_to_pfn(&self, iova: u64) -> Option<u64> {
        self.0.get(&(iova / PAGE)).map(|entry| entry.pfn)
    }

    /// The tables that a look-up of an address reads.
    #[must_use]
    pub fn levels(&self, iova: u64) -> u64 {
        self.0.get(&(iova / PAGE)).map_or(1, |entry| entry.levels)
    }

    /// The frame that a device's access ends at; `None`: the IOMMU lets it not through.
    #[must_use]
    pub fn translate(&self, iova: u64, wanted: Access) -> Option<u64> {
        let Entry { pfn, access, .. } = self.0.get(&(iova / PAGE))?;
        let may = (access.read || !wanted.read) && (access.write || !wanted.write);
        may.then_some(*pfn)
    }
}
