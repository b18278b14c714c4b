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

/// The translations that a device's accesses take.
#[derive(Clone, Debug, Default)]
pub struct Domain(BTreeMap<u64, (u64, Access)>);

impl Domain {
    /// Maps contiguous frames: `iommu_map`.
    pub fn map(&mut self, iova: u64, pfn: u64, (pages, access): (u64, Access)) {
        for page in 0..pages {
            self.0.insert(iova / PAGE + page, (pfn + page, access));
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
        self.0.get(&(iova / PAGE)).map(|(pfn, _)| *pfn)
    }

    /// The frame that a device's access ends at; `None`: the IOMMU lets it not through.
    #[must_use]
    pub fn translate(&self, iova: u64, wanted: Access) -> Option<u64> {
        let (pfn, access) = self.0.get(&(iova / PAGE))?;
        let may = (access.read || !wanted.read) && (access.write || !wanted.write);
        may.then_some(*pfn)
    }
}
