//! One counter: what it says and how it may change.

/// How the value of a counter may change. Source: `KVM_STATS_TYPE_*`, Documentation/virt/kvm/api.rst, 4.133.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Cumulative,
    /// It is what it is at the moment: pages that are mapped.
    Instant,
    /// The largest so far.
    Peak,
    /// The file does not say, and [`Meaning`](super::Meaning) does not know the name.
    #[default]
    Unknown,
}

/// The counts of a histogram: what `KVM_GET_STATS_FD` has room for.
pub(super) const MAX_BUCKETS: usize = u16::MAX as usize;

/// The ranges that the buckets of a histogram stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// Each as wide as this, in the counter's unit; the last has no end.
    Linear(u32),
    /// 0; 1; 2 and 3; 4 to 7; each twice as wide as the one before; the last has no end.
    Log2,
    /// The file does not say.
    Unknown,
}

/// How many of what was counted fell into each range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// What the ranges are.
    pub buckets: Buckets,
    /// A count for each, the lowest range first.
    pub counts: Vec<u64>,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Since the VM was made, or of the moment: [`Kind`].
    Count(u64),
    /// The difference to an earlier value. That of an instantaneous counter may be negative.
    Change(i64),
    /// A count for each range.
    Histogram(Histogram),
}

/// A counter at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What it says.
    pub value: Value,
    /// How it may change.
    pub kind: Kind,
}

impl Counter {
    /// A number.
    #[must_use]
    pub const fn count(count: u64, kind: Kind) -> Self {
        Self {
            value: Value::Count(count),
            kind,
        }
    }

    /// A difference to an earlier value.
    #[must_use]
    pub const fn change(change: i64, kind: Kind) -> Self {
        Self {
            value: Value::Change(change),
            kind,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        match self.value {
            Value::Count(count) => Some(count.into()),
            Value::Change(change) => Some(change.into()),
            Value::Histogram(_) => None,
        }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match &self.value {
            Value::Count(count) => *count == 0,
            Value::Change(change) => *change == 0,
            Value::Histogram(histogram) => histogram.counts.iter().all(|&count| count == 0),
        }
    }

    /// Memory of what it points to.
    pub(super) fn heap(&self) -> usize {
        match &self.value {
            Value::Count(_) | Value::Change(_) => 0,
            Value::Histogram(histogram) => size_of::<u64>() * histogram.counts.capacity(),
        }
    }
}
