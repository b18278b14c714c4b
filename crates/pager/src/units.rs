//! Sets of units of memory, one bit for each, that threads change at once.
//!
//! A unit is the page size of the memory behind it: 4 KiB, or that of hugetlb. In the set of present units a clear bit
//! may be stale, because another thread populated the unit; then the kernel returns `EEXIST`. A set bit is never stale,
//! unless the memory is given back, which [`Pager::forget`](super::Pager::forget) must announce.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units of a range that have a property.
#[derive(Debug)]
pub(crate) struct UnitSet {
    words: Vec<AtomicU64>,
    count: usize,
}

impl UnitSet {
    pub(crate) fn none(count: usize) -> Self {
        let words = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect(),
            count,
        }
    }

    /// Returns whether the set has a unit; beyond the end of the range it has none.
    pub(crate) fn has(&self, unit: usize) -> bool {
        let word = self.words.get(unit / 64);
        // Acquire: a thread that sees the bit also sees the content that was copied before it was set.
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (unit % 64) & 1 == 1)
    }

    pub(crate) fn insert(&self, units: Range<usize>) {
        self.each_word(units, |_, word, mask| {
            word.fetch_or(mask, Ordering::Release);
        });
    }

    pub(crate) fn remove(&self, units: Range<usize>) {
        self.each_word(units, |_, word, mask| {
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

    /// Inserts units; returns those that were not in the set, as maximal runs. Of several threads that insert a unit,
    /// one has it returned.
    pub(crate) fn claim(&self, units: Range<usize>) -> Vec<Range<usize>> {
        let mut won = Vec::new();
        self.each_word(units, |index, word, mask| {
            // Acquire: what a thread wrote before it removed the unit is seen by the next one that claims it.
            let new = mask & !word.fetch_or(mask, Ordering::AcqRel);
            push_runs(&mut won, index * 64, new);
        });
        won
    }

    /// The first run of units within `units` that are not in the set.
    pub(crate) fn first_absent(&self, units: Range<usize>) -> Option<Range<usize>> {
        let end = units.end.min(self.count);
        let start = (units.start..end).find(|unit| !self.has(*unit))?;
        let stop = (start + 1..end).find(|unit| self.has(*unit));
        Some(start..stop.unwrap_or(end))
    }

    /// All units of the set, as maximal runs in order.
    pub(crate) fn runs(&self) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            push_runs(&mut runs, index * 64, word.load(Ordering::Acquire));
        }
        runs
    }

    fn each_word(&self, units: Range<usize>, mut change: impl FnMut(usize, &AtomicU64, u64)) {
        let end = units.end.min(self.count);
        if units.start >= end {
            return;
        }
        for index in units.start / 64..end.div_ceil(64) {
            let first = index * 64;
            let from = units.start.saturating_sub(first);
            let to = (end - first).min(64);
            let mask = (u64::MAX >> (64 - (to - from))) << from;
            change(index, &self.words[index], mask);
        }
    }
}

/// Appends the runs of set bits of a word whose lowest bit is unit `first`; one that goes on is made longer.
fn push_runs(runs: &mut Vec<Range<usize>>, first: usize, mut bits: u64) {
    while bits != 0 {
        let from = bits.trailing_zeros();
        let length = (bits >> from).trailing_ones();
        // The bits below the run are clear, so that adding the lowest one carries out of the run.
        bits &= bits.wrapping_add(1 << from);
        let (start, end) = (first + from as usize, first + (from + length) as usize);
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A flag for each unit, searched step by step.
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

    /// Maximal runs of flags that are `wanted` within a part of them, found flag by flag.
    fn naive_runs(flags: &[bool], part: Range<usize>, wanted: bool) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for unit in part.filter(|unit| flags[*unit] == wanted) {
            if runs.last().is_some_and(|run| run.end == unit) {
                let last = runs.len() - 1;
                runs[last].end += 1;
            } else {
                runs.push(unit..unit + 1);
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn bits_and_runs_are_those_of_a_list_of_flags(
            count in 1_usize..300,
            changes in prop::collection::vec((0_usize..300, 0_usize..130, any::<bool>()), 0..20),
            unit in 0_usize..300,
            window in prop::sample::select(vec![1_usize, 2, 16, 64, 512]),
        ) {
            let bits = UnitSet::none(count);
            let mut flags = vec![false; count];
            for (start, length, present) in changes {
                let range = start.min(count)..(start + length).min(count);
                flags[range.clone()].fill(present);
                if present { bits.insert(range) } else { bits.remove(range) }
            }
            for (index, flag) in flags.iter().enumerate() {
                prop_assert_eq!(bits.has(index), *flag);
            }
            prop_assert_eq!(bits.runs(), naive_runs(&flags, 0..count, true));
            let unit = unit % count;
            let part = unit..(unit + window).min(count);
            let absent = naive_runs(&flags, part.clone(), false);
            prop_assert_eq!(bits.first_absent(unit..unit + window), absent.first().cloned());
            prop_assert_eq!(bits.absent_around(unit, window), naive_absent(&flags, unit, window));
            prop_assert_eq!(bits.claim(part.clone()), absent);
            flags[part].fill(true);
            prop_assert_eq!(bits.runs(), naive_runs(&flags, 0..count, true));
        }
    }

    #[test]
    fn each_unit_is_claimed_by_one_of_many_threads() {
        const UNITS: usize = 1000;
        let bits = UnitSet::none(UNITS);
        let bits = &bits;
        let claim = move |thread: usize| {
            let starts = (0..UNITS).map(move |n| (n * 7 + thread * 31) % UNITS);
            let won = starts.flat_map(|start| bits.claim(start..start + 100));
            won.flatten().collect::<Vec<_>>()
        };
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || claim(thread)));
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..UNITS).collect::<Vec<_>>());
    }

    #[test]
    fn beyond_the_end_nothing_is_there() {
        let bits = UnitSet::none(3);
        bits.insert(0..3);
        assert!(bits.has(2) && !bits.has(3) && !bits.has(1000));
    }
}
