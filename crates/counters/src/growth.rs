//! Growth of each counter of a file, from the first to the last of its values, without those between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pagetoll_text::{LeftOut, Truncated};

use super::{Counter, Kind, Scope};

/// Growth of all counters of a file.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// By scope and by name.
    pub(crate) counters: BTreeMap<Scope, BTreeMap<Arc<str>, Delta>>,
    /// Entries that are no counters, or could not be read when they were recorded.
    pub(crate) passed_over: BTreeSet<String>,
    /// Lines that are none of the form.
    pub(crate) left_out: LeftOut,
    /// End of the file, if the reader stopped before it.
    pub(crate) truncated: Option<Truncated>,
}

/// Values of a counter, as far as they say what it grew by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delta {
    /// First and last value of a counter that only grows.
    Count {
        /// The only one, where there is no last.
        first: u64,
        last: Option<u64>,
    },
    /// The last value.
    Gauge(u64),
    /// The sum of all changes.
    Changes(i64),
}

impl Delta {
    pub(super) const fn new(counter: Counter) -> Self {
        match counter {
            Counter::Count(count, Some(Kind::Gauge)) => Self::Gauge(count),
            Counter::Count(first, _) => Self::Count { first, last: None },
            Counter::Change(change) => Self::Changes(change),
        }
    }

    /// Takes in a later value.
    pub(super) fn add(&mut self, counter: Counter) {
        match (&mut *self, counter) {
            (Self::Gauge(last), Counter::Count(count, _)) => *last = count,
            (Self::Count { last, .. }, Counter::Count(count, kind))
                if kind != Some(Kind::Gauge) =>
            {
                *last = Some(count);
            }
            (Self::Changes(sum), Counter::Change(change)) => *sum = sum.saturating_add(change),
            (_, other) => *self = Self::new(other),
        }
    }

    /// Growth; the value itself of a gauge, and where there is but one. `None` if it went backwards.
    pub(crate) fn by(self) -> Option<u64> {
        match self {
            Self::Count { first, last: None } => Some(first),
            Self::Count {
                first,
                last: Some(last),
            } => last.checked_sub(first),
            Self::Gauge(last) => Some(last),
            Self::Changes(sum) => u64::try_from(sum).ok(),
        }
    }
}

#[cfg(test)]
impl Growth {
    /// Growth of one counter.
    pub(super) fn by(&self, scope: &Scope, name: &str) -> Option<u64> {
        self.counters.get(scope)?.get(name)?.by()
    }

    /// Number of counters.
    pub(super) fn len(&self) -> usize {
        self.counters.values().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(counters: &[Counter]) -> Option<u64> {
        let mut grown = Delta::new(counters[0]);
        counters[1..].iter().for_each(|counter| grown.add(*counter));
        grown.by()
    }

    #[test]
    fn counts_are_subtracted_changes_summed_and_gauges_are_what_they_were_last() {
        let count = |count| Counter::Count(count, None);
        let change = Counter::Change;
        let gauge = |count| Counter::Count(count, Some(Kind::Gauge));
        assert_eq!(by(&[count(3)]), Some(3));
        assert_eq!(by(&[count(3), count(9), count(10)]), Some(7));
        assert_eq!(by(&[count(3), count(1)]), None);
        assert_eq!(by(&[change(3), change(-1)]), Some(2));
        assert_eq!(by(&[change(3), change(-4)]), None);
        assert_eq!(by(&[gauge(9), gauge(4)]), Some(4));
        assert_eq!(by(&[count(9), gauge(4), count(3)]), Some(3));
    }
}
