//! Disjoint ranges of numbers, merged where they meet.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that are kept. Past these, further ones that meet none are forgotten.
const MOST: usize = 1 << 16;

/// A set of numbers.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn add(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&first, &last)) = self.0.range(..=end).next_back() {
            if last < start {
                break;
            }
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        if self.0.len() < MOST {
            self.0.insert(start, end);
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, &end)| number < end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_what_a_set_has(added in prop::collection::vec((0_u64..60, 1_u64..9), 0..30)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in added {
                ranges.add(start..start + length);
                set.extend(start..start + length);
            }
            for number in 0..80 {
                prop_assert_eq!(ranges.contains(number), set.contains(&number));
            }
        }
    }
}
