//! Counts of the steps that were done, to attach prices to.

/// Steps of mapping and unmapping, by kind. Each stands for the part of the kernel that its line names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolls {
    /// `VFIO_IOMMU_MAP_DMA` and `VFIO_IOMMU_UNMAP_DMA`.
    pub ioctls: u64,
    /// Batches filled: `vaddr_get_pfns`, one `pin_user_pages_remote` each.
    pub batches: u64,
    /// Page-table entries of 4 KiB found by it: `follow_page_pte`.
    pub entries: u64,
    /// Larger entries found by it: `follow_huge_pmd`, `follow_huge_pud`.
    pub large_entries: u64,
    /// Page pointers written into a batch, and pages pinned one by one.
    pub page_pointers: u64,
    /// Pages checked for contiguity and accounted one at a time.
    pub pages_checked: u64,
    /// Steps that took as many pages as are contiguous; priced with the batch or the run that they begin.
    pub folios_checked: u64,
    /// Physically contiguous runs: `vfio_pin_pages_remote`, `vfio_lock_acct` and `vfio_iommu_map` once each.
    pub runs: u64,
    /// Entries written into the IOMMU's tables: `__domain_mapping`.
    pub iommu_entries: u64,
    /// Look-ups of one page's translation: `iommu_iova_to_phys`.
    pub translations: u64,
    /// Tables of the IOMMU that these look-ups read: three down to an entry of 4 KiB, one to an entry of 1 GiB.
    pub levels: u64,
    /// Look-ups among them that end at an entry of 4 KiB, for which `pfn_to_dma_pte` asks more.
    pub small_translations: u64,
    /// Runs unmapped: `iommu_unmap`.
    pub runs_unmapped: u64,
    /// Entries cleared in the IOMMU's tables, a table that is dropped whole being one: `dma_pte_clear_level`.
    pub iommu_entries_cleared: u64,
    /// Pages unpinned one at a time: `put_pfn`.
    pub pages_unpinned: u64,
    /// Folios unpinned, each at once: `unpin_user_page_range_dirty_lock`.
    pub folios_unpinned: u64,
}
