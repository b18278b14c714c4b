//! Sets of a guest's pages.

use std::ops::Range;

/// Pages of a guest, a bit for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    pages: u64,
}

impl PageSet {
    /// No page of so many.
    pub(crate) fn new(pages: u64) -> Self {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(0);
        Self {
            words: vec![0; words],
            pages,
        }
    }

    /// A set with these pages, of so many.
    pub(crate) fn with(range: Range<u64>, pages: u64) -> Self {
        let mut set = Self::new(pages);
        set.insert_all(range);
        set
    }

    /// Pages that could be in it.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Takes all pages out.
    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds a page; one beyond the last is left out.
    pub(super) fn insert(&mut self, page: u64) {
        if page < self.pages
            && let Some(word) = self.words.get_mut((page / 64) as usize)
        {
            *word |= 1 << (page % 64);
        }
    }

    /// Adds pages.
    pub(super) fn insert_all(&mut self, range: Range<u64>) {
        range.for_each(|page| self.insert(page));
    }

    /// Adds the pages whose bits are set, from page 0 on.
    pub(super) fn insert_bits(&mut self, bits: &[u64]) {
        for (word, bits) in self.words.iter_mut().zip(bits) {
            *word |= bits;
        }
        let last = self.pages % 64;
        if last != 0
            && let Some(word) = self.words.last_mut()
        {
            *word &= (1 << last) - 1;
        }
    }

    /// The bits of its pages.
    pub(super) fn bits(&self) -> &[u64] {
        &self.words
    }

    /// Number of its pages.
    pub(crate) fn len(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Number of its pages that another set lacks.
    pub(super) fn missing_from(&self, other: &Self) -> u64 {
        let pairs = self.words.iter().zip(&other.words);
        pairs
            .map(|(own, other)| u64::from((own & !other).count_ones()))
            .sum()
    }

    /// Its pages, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = (0..).zip(&self.words);
        words.flat_map(|(number, word)| bits_of(*word).map(move |bit| number * 64 + bit))
    }

    /// Its pages as runs, ascending.
    pub(crate) fn runs(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in self.iter() {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }
}

fn bits_of(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_is_a_set(first in prop::collection::btree_set(0u64..200, 0..64), other in prop::collection::btree_set(0u64..200, 0..64)) {
            let of = |pages: &BTreeSet<u64>| {
                let mut set = PageSet::new(150);
                pages.iter().for_each(|page| set.insert(*page));
                set
            };
            let within: BTreeSet<u64> = first.iter().copied().filter(|page| *page < 150).collect();
            let set = of(&first);
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), within.clone());
            prop_assert_eq!(set.len(), within.len() as u64);
            prop_assert_eq!(set.missing_from(&of(&other)), within.difference(&other).count() as u64);
            prop_assert_eq!(set.runs().into_iter().flatten().collect::<BTreeSet<_>>(), within);
        }
    }

    #[test]
    fn bits_beyond_the_last_page_are_no_pages() {
        let mut set = PageSet::new(70);
        set.insert_bits(&[0, u64::MAX]);
        assert_eq!((set.runs().len(), set.runs().first()), (1, Some(&(64..70))));
    }
}
