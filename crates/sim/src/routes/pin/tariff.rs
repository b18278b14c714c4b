//! What mapping and unmapping pay for.

use pagetoll_bill::cost::CostKey;

use super::shape::Travelled;
use crate::routes::price::Item;
use pagetoll_models::vfio::Tolls;

/// Mapping or unmapping.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    /// Its name, the lab's.
    pub(crate) name: &'static str,
    /// Its part of what was done.
    pub(crate) tolls: fn(&Travelled) -> Tolls,
    /// What it pays for.
    pub(crate) tariff: &'static [Item<Tolls>],
}

const fn item(toll: &'static str, key: CostKey, count: fn(&Tolls) -> u64) -> Item<Tolls> {
    Item { toll, key, count }
}

/// `VFIO_IOMMU_MAP_DMA`.
pub(crate) const MAP: Operation = Operation {
    name: "map",
    tolls: |travelled| travelled.map,
    tariff: &[
        item("ioctl", CostKey::PIN_IOCTL, |t| t.ioctls),
        item("batch", CostKey::PIN_BATCH, |t| t.batches),
        item("entry", CostKey::PIN_ENTRY, |t| t.entries),
        item("large-entry", CostKey::PIN_ENTRY_LARGE, |t| t.large_entries),
        item("page-pointer", CostKey::PIN_POINTER, |t| t.page_pointers),
        item("page-check", CostKey::PIN_PAGE, |t| t.pages_checked),
        item("run", CostKey::PIN_RUN, |t| t.runs),
        item("iommu-entry", CostKey::PIN_IOMMU_ENTRY, |t| t.iommu_entries),
    ],
};

/// `VFIO_IOMMU_UNMAP_DMA`.
pub(crate) const UNMAP: Operation = Operation {
    name: "unmap",
    tolls: |travelled| travelled.unmap,
    tariff: &[
        item("ioctl", CostKey::UNPIN_IOCTL, |t| t.ioctls),
        item("translation", CostKey::UNPIN_TRANSLATION, |t| {
            t.translations
        }),
        item("level", CostKey::UNPIN_LEVEL, |t| t.levels),
        item("small-translation", CostKey::UNPIN_SMALL, |t| {
            t.small_translations
        }),
        item("run", CostKey::UNPIN_RUN, |t| t.runs_unmapped),
        item("iommu-entry", CostKey::UNPIN_IOMMU_ENTRY, |t| {
            t.iommu_entries_cleared
        }),
        item("page", CostKey::UNPIN_PAGE, |t| t.pages_unpinned),
        item("folio", CostKey::UNPIN_FOLIO, |t| t.folios_unpinned),
    ],
};

/// Both.
pub(crate) const OPERATIONS: [Operation; 2] = [MAP, UNMAP];
