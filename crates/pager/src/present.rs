//! Presence of memory, one bit for each unit, set by the thread that populated it.
//!
//! A unit is the page size of the memory behind it: 4 KiB, or that of hugetlb. A clear bit may be stale, because
//! another thread populated the unit; then the kernel returns `EEXIST`. A set bit is never stale, unless the memory is
//! given back, which [`PresentUnits::forget`] must announce.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a region.
#[derive(Debug)]
pub(crate) struct PresentUnits {
    words: Vec<AtomicU64>,
    count: usize,
}

impl PresentUnits {
    pub(crate) fn none(count: usize) -> Self {
        let words = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect(),
            count,
        }
    }

    /// Returns whether a unit is present; beyond the end of the region none is.
    pub(crate) fn has(&self, unit: usize) -> bool {
        let word = self.words.get(unit / 64);
        // Acquire: a thread that sees the bit also sees the content that was copied before it was set.
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (unit % 64) & 1 == 1)
    }

    /// Marks units as populated.
    pub(crate) fn mark(&self, units: Range<usize>) {
        self.each_word(units, |word, mask| {
            word.fetch_or(mask, Ordering::Release);
        });
    }

    /// Marks units as missing: their memory has been given back.
    pub(crate) fn forget(&self, units: Range<usize>) {
        self.each_word(units, |word, mask| {
            word.fetch_and(!mask, Ordering::Release);
        });
    }

    /// The longest run of absent units around `unit` within its aligned window of `window` units.
    pub(crate) fn absent_around(&self, unit: usize, window: usize) -> Range<usize> {
        let first = unit - unit % window;
        let end = (first + window).min(self.count);
        let start = (first..unit).rev().find(|unit| self.has(*unit));
        let stop = (unit + 1..end).find(|unit| self.has(*unit));
        start.map_or(first, |present| present + 1)..stop.unwrap_or(end)
    }

    fn each_word(&self, units: Range<usize>, change: impl Fn(&AtomicU64, u64)) {
        let end = units.end.min(self.count);
        if units.start >= end {
            return;
        }
        for index in units.start / 64..end.div_ceil(64) {
            let first = index * 64;
            let from = units.start.saturating_sub(first);
            let to = (end - first).min(64);
            let mask = (u64::MAX >> (64 - (to - from))) << from;
            change(&self.words[index], mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Presence as a flag for each unit, searched step by step.
    fn naive_absent(present: &[bool], unit: usize, window: usize) -> Range<usize> {
        let inside = |other: usize| other / window == unit / window;
        let (mut start, mut end) = (unit, unit + 1);
        while start > 0 && inside(start - 1) && !present[start - 1] {
            start -= 1;
        }
        while end < present.len() && inside(end) && !present[end] {
            end += 1;
        }
        start..end
    }

    proptest! {
        #[test]
        fn bits_and_runs_are_those_of_a_list_of_flags(
            count in 1_usize..300,
            changes in prop::collection::vec((0_usize..300, 0_usize..130, any::<bool>()), 0..20),
            unit in 0_usize..300,
            window in prop::sample::select(vec![1_usize, 2, 16, 64, 512]),
        ) {
            let bits = PresentUnits::none(count);
            let mut flags = vec![false; count];
            for (start, length, present) in changes {
                let range = start.min(count)..(start + length).min(count);
                flags[range.clone()].fill(present);
                if present { bits.mark(range) } else { bits.forget(range) }
            }
            for (index, flag) in flags.iter().enumerate() {
                prop_assert_eq!(bits.has(index), *flag);
            }
            let unit = unit % count;
            prop_assert_eq!(bits.absent_around(unit, window), naive_absent(&flags, unit, window));
        }
    }

    #[test]
    fn beyond_the_end_nothing_is_there() {
        let bits = PresentUnits::none(3);
        bits.mark(0..3);
        assert!(bits.has(2) && !bits.has(3) && !bits.has(1000));
    }
}
