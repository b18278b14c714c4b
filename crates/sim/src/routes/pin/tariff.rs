//! Tariffs of mapping and unmapping.

use pagetoll_bill::Operation;
use pagetoll_cost::CostKey;

use super::shape::PinRun;
use crate::routes::price::{Counted, Item};
use pagetoll_host_models::vfio::Tolls;

/// One of the two ioctls, with what a page pays for in it.
#[derive(Clone, Copy)]
pub(crate) struct Ioctl {
    pub(crate) operation: Operation,
    /// Its part of what was done.
    pub(crate) tolls: fn(&PinRun) -> Tolls,
    /// Items that a page pays for.
    pub(crate) tariff: &'static [Item<Tolls>],
}

impl Ioctl {
    /// Items that are paid for, with their counts: tolls that did not occur need no figure.
    pub(crate) fn paid(self, ran: &PinRun) -> (Vec<Item<Tolls>>, Counted<Tolls>) {
        let counts = (self.tolls)(ran);
        let occurred = |item: &&Item<Tolls>| (item.count)(&counts) > 0;
        let tariff = self.tariff.iter().filter(occurred).copied().collect();
        let items = ran.pages;
        (tariff, Counted { counts, items })
    }
}

const fn item(toll: &'static str, key: CostKey, count: fn(&Tolls) -> u64) -> Item<Tolls> {
    Item { toll, key, count }
}

/// `VFIO_IOMMU_MAP_DMA`.
pub(crate) const MAP: Ioctl = Ioctl {
    operation: Operation::Map,
    tolls: |ran| ran.map,
    tariff: &[
        item("ioctl", CostKey::PIN_IOCTL, |t| t.ioctls),
        item("batch", CostKey::PIN_BATCH, |t| t.batches),
        item("entry", CostKey::PIN_ENTRY, |t| t.entries),
        item("large-entry", CostKey::PIN_ENTRY_LARGE, |t| t.large_entries),
        item("page-pointer", CostKey::PIN_POINTER, |t| t.page_pointers),
        item("longterm-check", CostKey::PIN_LONGTERM, |t| t.page_pointers),
        item("page-check", CostKey::PIN_PAGE, |t| t.pages_checked),
        item("run", CostKey::PIN_RUN, |t| t.runs),
        item("iommu-entry", CostKey::PIN_IOMMU_ENTRY, |t| t.iommu_entries),
    ],
};

/// `VFIO_IOMMU_UNMAP_DMA`.
pub(crate) const UNMAP: Ioctl = Ioctl {
    operation: Operation::Unmap,
    tolls: |ran| ran.unmap,
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

/// Mapping and unmapping.
pub(crate) const IOCTLS: [Ioctl; 2] = [MAP, UNMAP];
