//! The mappings of a container: `struct vfio_dma` in a tree ordered by I/O virtual address.

use std::collections::BTreeMap;

use super::{Access, PfnList};

/// A mapping.
#[derive(Clone, Debug, Default)]
pub struct Dma {
    /// Address on the device side.
    pub iova: u64,
    /// Address in the process.
    pub vaddr: u64,
    /// Bytes, none of them outside what is mapped.
    pub size: u64,
    /// Accesses that the device may make.
    pub access: Access,
    /// Pages that were pinned by others.
    pub pfn_list: PfnList,
}

/// The mappings of a container; no two overlap.
#[derive(Clone, Debug, Default)]
pub struct DmaTree(BTreeMap<u64, Dma>);

impl DmaTree {
    /// The first mapping that overlaps `[start, start + size)`: `vfio_find_dma`. The range must not wrap.
    #[must_use]
    pub fn find(&self, start: u64, size: u64) -> Option<&Dma> {
        let last = start + (size - 1);
        let below = self.0.range(..=start).next_back().map(|(_, dma)| dma);
        below
            .filter(|dma| dma.iova + (dma.size - 1) >= start)
            .or_else(|| self.0.range(start..=last).next().map(|(_, dma)| dma))
    }

    /// Adds a mapping that overlaps none: `vfio_link_dma`.
    pub fn link(&mut self, dma: Dma) {
        self.0.insert(dma.iova, dma);
    }

    /// Takes the mapping that begins at an address out: `vfio_unlink_dma`.
    pub fn unlink(&mut self, iova: u64) -> Option<Dma> {
        self.0.remove(&iova)
    }

    /// The mapping that an address lies in, to be changed.
    pub fn find_mut(&mut self, iova: u64) -> Option<&mut Dma> {
        let (_, dma) = self.0.range_mut(..=iova).next_back()?;
        (dma.iova + (dma.size - 1) >= iova).then_some(dma)
    }
}
