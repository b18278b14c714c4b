//! Occurrences of each of many numbers, in bounded memory.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Different numbers that a [`Tally`] counts at most. Assumed to exceed the addresses in any kernel that trap; it bounds
/// memory to 2 MiB on a hostile trace.
pub const MAX_NUMBERS: usize = 65_536;

/// Counts by number, such as an instruction's address.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: FxHashMap<u64, u64>,
    others: u64,
}

impl Tally {
    pub(super) fn record(&mut self, number: u64) {
        if let Some(count) = self.counts.get_mut(&number) {
            *count += 1;
        } else if self.counts.len() < MAX_NUMBERS {
            self.counts.insert(number, 1);
        } else {
            self.others += 1;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.others += other.others;
        for (number, count) in other.sorted() {
            if self.counts.len() < MAX_NUMBERS || self.counts.contains_key(&number) {
                *self.counts.entry(number).or_default() += count;
            } else {
                self.others += count;
            }
        }
    }

    /// The numbers in order, and how often each occurred.
    #[must_use]
    pub fn sorted(&self) -> BTreeMap<u64, u64> {
        self.counts.iter().map(|(&n, &count)| (n, count)).collect()
    }

    /// Number of different numbers that were counted.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// Occurrences of numbers beyond [`MAX_NUMBERS`].
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_bound_is_counted_together() {
        let mut tally = Tally::default();
        let numbers = 0..MAX_NUMBERS as u64 + 3;
        numbers.clone().chain(numbers).for_each(|n| tally.record(n));
        assert_eq!((tally.distinct(), tally.others()), (MAX_NUMBERS, 6));
        assert!(tally.sorted().values().all(|count| *count == 2));
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.distinct(), sum.others()), (MAX_NUMBERS, 12));
        assert!(sum.sorted().values().all(|count| *count == 4));
    }
}
