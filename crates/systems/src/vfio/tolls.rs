//! What was done, for whoever bills it.

use std::ops::AddAssign;

/// Steps of mapping and unmapping, by kind. Each stands for the part of the kernel that its line names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolls {
    /// `VFIO_IOMMU_MAP_DMA` and `VFIO_IOMMU_UNMAP_DMA`.
    pub ioctls: u64,
    /// Batches filled: `vaddr_get_pfns`, one `pin_user_pages_remote` each.
    pub batches: u64,
    /// Page-table entries found by it, small or large: `follow_page_mask`.
    pub entries: u64,
    /// Page pointers written into a batch, and pages pinned one by one.
    pub page_pointers: u64,
    /// Pages checked for contiguity and accounted one at a time.
    pub pages_checked: u64,
    /// Steps that took more than a page at once.
    pub folios_checked: u64,
    /// Physically contiguous runs: `vfio_pin_pages_remote`, `vfio_lock_acct` and `vfio_iommu_map` once each.
    pub runs: u64,
    /// Look-ups of one page's translation: `iommu_iova_to_phys`.
    pub translations: u64,
    /// Tables of the IOMMU that these look-ups read: three down to an entry of 4 KiB, one to an entry of 1 GiB.
    pub levels: u64,
    /// Runs unmapped: `iommu_unmap`.
    pub runs_unmapped: u64,
    /// Pages unpinned one at a time: `put_pfn`.
    pub pages_unpinned: u64,
    /// Folios unpinned, each at once: `unpin_user_page_range_dirty_lock`.
    pub folios_unpinned: u64,
}

impl AddAssign for Tolls {
    fn add_assign(&mut self, other: Self) {
        self.ioctls += other.ioctls;
        self.batches += other.batches;
        self.entries += other.entries;
        self.page_pointers += other.page_pointers;
        self.pages_checked += other.pages_checked;
        self.folios_checked += other.folios_checked;
        self.runs += other.runs;
        self.translations += other.translations;
        self.levels += other.levels;
        self.runs_unmapped += other.runs_unmapped;
        self.pages_unpinned += other.pages_unpinned;
        self.folios_unpinned += other.folios_unpinned;
    }
}
