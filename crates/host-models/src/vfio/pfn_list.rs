//! Externally pinned pages: `pfn_list` of `struct vfio_dma`.
//!
//! Drivers of mediated devices pin single pages (`vfio_pin_pages`); they are accounted then, and so not again when the
//! whole range is pinned. Ordered by I/O virtual address.

use std::collections::BTreeMap;

use super::PAGE;

/// A page that was pinned by a driver: `struct vfio_pfn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vpfn {
    /// Address on the device side.
    pub iova: u64,
    /// Its frame.
    pub pfn: u64,
    /// Number of times that it was asked for.
    pub ref_count: u32,
}

/// The list of a mapping.
#[derive(Clone, Debug, Default)]
pub struct PfnList(BTreeMap<u64, Vpfn>);

impl PfnList {
    /// The page at an address: a range of one page.
    #[must_use]
    pub fn find(&self, iova: u64) -> Option<&Vpfn> {
        self.find_range(iova, 1)
    }

    /// The first page that overlaps `[iova, iova + npage)`: `vfio_find_vpfn_range`.
    #[must_use]
    pub fn find_range(&self, iova: u64, npage: u64) -> Option<&Vpfn> {
        self.range(iova, npage).next()
    }

    /// Number of pages of a range that are in the list: `vpfn_pages`.
    #[must_use]
    pub fn pages(&self, iova: u64, npage: u64) -> u64 {
        u64::try_from(self.range(iova, npage).count()).unwrap_or(u64::MAX)
    }

    fn range(&self, iova: u64, npage: u64) -> impl Iterator<Item = &Vpfn> {
        let end = iova.saturating_add(npage.saturating_mul(PAGE));
        self.0.range(iova..end).map(|(_, vpfn)| vpfn)
    }

    /// Takes a reference, adding the page when it is not in the list.
    pub fn get(&mut self, iova: u64, pfn: u64) {
        let new = Vpfn {
            iova,
            pfn,
            ref_count: 0,
        };
        self.0.entry(iova).or_insert(new).ref_count += 1;
    }

    /// Drops a reference; gives the frame when that was the last.
    pub fn put(&mut self, iova: u64) -> Option<u64> {
        let vpfn = self.0.get_mut(&iova)?;
        vpfn.ref_count -= 1;
        if vpfn.ref_count > 0 {
            return None;
        }
        self.0.remove(&iova).map(|vpfn| vpfn.pfn)
    }
}
