//! What each counter of a file grew by, from the first to the last of its values, without keeping those between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pagetoll_units::budget::{first_tree_node, in_tree};

use super::recorder::{Keep, Names, Rest};
use super::{Counter, Kind, Scope, Time, Value};
use crate::position::Truncated;

/// Bytes for each counter that whoever goes on with it is assumed to take.
const REPORTED: usize = 160;
/// Bytes for each VM, vCPU or host that whoever goes on with it is assumed to take.
const REPORTED_SCOPE: usize = 256;

/// What all counters of a file grew by.
#[derive(Debug, Default)]
pub struct Growth {
    /// By whose they are and by name.
    pub counters: BTreeMap<Scope, BTreeMap<Arc<str>, Grown>>,
    /// What stands among the counters and is none, or could not be read when they were recorded.
    pub passed_over: BTreeSet<String>,
    /// Whether the file goes on, or went on once.
    pub truncated: Option<Truncated>,
}

/// The values of a counter, as far as they say what it grew by. Of a histogram, a value is the sum of its counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grown {
    first: u64,
    last: u64,
    changes: i64,
    values: Values,
}

#[derive(Clone, Copy, Debug, Default)]
enum Values {
    #[default]
    None,
    One,
    Several,
    /// What was last is what counts: [`Kind::Instant`], [`Kind::Peak`].
    Gauge,
    /// They are summed: [`Value::Change`].
    Changes,
}

impl Grown {
    fn take(&mut self, counter: &Counter) {
        let value = match &counter.value {
            Value::Count(count) => *count,
            Value::Change(change) => {
                self.changes = self.changes.saturating_add(*change);
                self.values = Values::Changes;
                return;
            }
            Value::Histogram(histogram) => {
                let counts = histogram.counts.iter();
                counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
            }
        };
        self.values = match self.values {
            _ if matches!(counter.kind, Kind::Instant | Kind::Peak) => Values::Gauge,
            Values::None => Values::One,
            Values::One => Values::Several,
            other => other,
        };
        if matches!(self.values, Values::One) {
            self.first = value;
        }
        self.last = value;
    }

    /// By how much it grew; a single value and a gauge are what they are. `None` of what went backwards.
    #[must_use]
    pub fn by(&self) -> Option<u64> {
        match self.values {
            Values::Changes => u64::try_from(self.changes).ok(),
            Values::Several => self.last.checked_sub(self.first),
            Values::None | Values::One | Values::Gauge => Some(self.last),
        }
    }
}

/// What is kept while a file is read.
#[derive(Debug, Default)]
pub(super) struct Growing {
    counters: BTreeMap<Scope, BTreeMap<Arc<str>, Grown>>,
    names: Names,
}

impl Growing {
    pub(super) fn growth(self, rest: Rest) -> Growth {
        Growth {
            counters: self.counters,
            passed_over: rest.passed_over,
            truncated: rest.truncated,
        }
    }
}

impl Keep for Growing {
    fn begin(&mut self, _time: Option<Time>) {}

    fn add(&mut self, scope: &Scope, name: &str, counter: Counter) -> usize {
        let mut memory = 0;
        if !self.counters.contains_key(scope) {
            memory += 2 * scope.memory() + first_tree_node::<Arc<str>, Grown>() + REPORTED_SCOPE;
            self.counters.insert(scope.clone(), BTreeMap::new());
        }
        let Some(of) = self.counters.get_mut(scope) else {
            return memory;
        };
        if let Some(grown) = of.get_mut(name) {
            grown.take(&counter);
            return memory;
        }
        let (name, of_name) = self.names.intern(name);
        memory += of_name + in_tree::<Arc<str>, Grown>() + REPORTED + name.len();
        of.entry(name).or_default().take(&counter);
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(counters: &[Counter]) -> Option<u64> {
        let mut grown = Grown::default();
        counters.iter().for_each(|counter| grown.take(counter));
        grown.by()
    }

    #[test]
    fn counts_are_subtracted_changes_summed_and_gauges_are_what_they_were_last() {
        let count = |count| Counter::count(count, Kind::Cumulative);
        let change = |change| Counter::change(change, Kind::Unknown);
        let gauge = |count| Counter::count(count, Kind::Instant);
        assert_eq!(by(&[count(3)]), Some(3));
        assert_eq!(by(&[count(3), count(9), count(10)]), Some(7));
        assert_eq!(by(&[count(3), count(1)]), None);
        assert_eq!(by(&[change(3), change(-1)]), Some(2));
        assert_eq!(by(&[change(3), change(-4)]), None);
        assert_eq!(by(&[gauge(9), gauge(4)]), Some(4));
    }
}
