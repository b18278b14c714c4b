//! Entries of pages by the numbers of the pages, as page tables have them: looked up at each access, walked seldom.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// An entry for each of some pages.
#[derive(Clone, Debug)]
pub(crate) struct PageMap<T>(HashMap<u64, T, BuildHasherDefault<PageHasher>>);

impl<T> Default for PageMap<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T> PageMap<T> {
    /// The entry of a page.
    pub(crate) fn get(&self, page: u64) -> Option<&T> {
        self.0.get(&page)
    }

    /// The entry of a page, to be changed.
    pub(crate) fn get_mut(&mut self, page: u64) -> Option<&mut T> {
        self.0.get_mut(&page)
    }

    /// Sets the entry of a page.
    pub(crate) fn set(&mut self, page: u64, entry: T) {
        self.0.insert(page, entry);
    }

    /// Clears the entry of a page.
    pub(crate) fn clear(&mut self, page: u64) {
        self.0.remove(&page);
    }

    /// Clears the entries of a range of pages.
    pub(crate) fn clear_range(&mut self, pages: Range<u64>) {
        match self.is_longer_than(&pages) {
            true => pages.for_each(|page| self.clear(page)),
            false => self.retain(|page, _| !pages.contains(&page)),
        }
    }

    /// Keeps these entries alone.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u64, &T) -> bool) {
        self.0.retain(|page, entry| keeps(*page, entry));
    }

    /// Pages of a range that have entries, in order, with these.
    pub(crate) fn range(&self, pages: Range<u64>) -> Vec<(u64, &T)> {
        if self.is_longer_than(&pages) {
            return pages
                .filter_map(|page| Some((page, self.get(page)?)))
                .collect();
        }
        let entries = self.0.iter().map(|(page, entry)| (*page, entry));
        let mut within: Vec<_> = entries.filter(|(page, _)| pages.contains(page)).collect();
        within.sort_unstable_by_key(|(page, _)| *page);
        within
    }

    /// All entries with their pages, in no order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.0.iter_mut().map(|(page, entry)| (*page, entry))
    }

    /// True if there are more entries than pages in a range: then pages are looked up one by one.
    fn is_longer_than(&self, pages: &Range<u64>) -> bool {
        pages.end.saturating_sub(pages.start) < self.0.len() as u64
    }
}

/// A hash of a page's number: numbers are next to each other, and no adversary chooses them.
#[derive(Clone, Copy, Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write_u64(&mut self, page: u64) {
        // 2^64 over the golden ratio; the map takes both ends of the hash.
        let product = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_those_of_an_ordered_map(
            ops in prop::collection::vec((0..4u8, 0..200u64, 0..100u64), 0..200),
        ) {
            let (mut map, mut oracle) = (PageMap::default(), BTreeMap::new());
            for (number, (op, page, pages)) in ops.into_iter().enumerate() {
                match op {
                    0 => {
                        map.clear(page);
                        oracle.remove(&page);
                    }
                    1 => {
                        map.clear_range(page..page + pages);
                        oracle.retain(|at, _| !(page..page + pages).contains(at));
                    }
                    _ => {
                        map.set(page, number);
                        oracle.insert(page, number);
                    }
                }
                prop_assert_eq!(map.get(page), oracle.get(&page));
                let within: Vec<_> = oracle.range(page..page + pages).map(|(at, it)| (*at, it)).collect();
                prop_assert_eq!(map.range(page..page + pages), within);
            }
        }
    }
}
