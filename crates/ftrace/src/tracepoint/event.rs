//! An event with who caused it, when and where, and the gaps between events.

use std::collections::HashSet;
use std::sync::Arc;

use pagetoll_units::Nanos;

use super::Payload;

/// A short text that many events share.
pub type Name = Arc<str>;

/// The thread that caused an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The process; `perf script` prints it only when asked (`-F pid`).
    pub pid: Option<u32>,
    /// The thread; one that was exiting has none.
    pub tid: Option<u32>,
    /// Its name: `swapper` when idle, `:TID` when the trace does not have it, `:-1` when it was exiting, empty when
    /// the text has none.
    pub comm: Name,
}

/// Reading of the clock that a trace was recorded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Since the clock's zero.
    Time(Nanos),
    /// Reading of a clock that counts no seconds, such as `x86-tsc`, `counter` or `uptime`: the trace does not say which.
    Ticks(u64),
    /// No reading: the trace has none.
    None,
}

impl Stamp {
    /// The clock's reading, in its own unit.
    #[must_use]
    pub const fn reading(self) -> Option<u64> {
        match self {
            Self::Time(time) => Some(time.0),
            Self::Ticks(ticks) => Some(ticks),
            Self::None => None,
        }
    }

    /// The time, of a clock that counts seconds.
    #[must_use]
    pub const fn time(self) -> Option<Nanos> {
        match self {
            Self::Time(time) => Some(time),
            Self::Ticks(_) | Self::None => None,
        }
    }
}

/// A record of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was recorded.
    pub time: Stamp,
    /// CPU that it happened on.
    pub cpu: Option<u32>,
    /// The thread that ran.
    pub task: Task,
    /// The tracepoint and its fields.
    pub payload: Payload,
}

/// Records that the kernel could not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// End of the gap, where that is known.
    pub time: Option<Nanos>,
    /// The CPU whose records are missing.
    pub cpu: Option<u32>,
    /// Number of records; `None` where the trace does not say.
    pub records: Option<u64>,
}

/// An event or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A tracepoint that has a [`Payload`].
    Event(Event),
    /// A gap.
    Lost(Lost),
}

/// Names shared by the events that have them. Real traces have hundreds; past 16,384 names are no longer shared.
#[derive(Debug, Default)]
pub struct Names(HashSet<Name>);

impl Names {
    const LIMIT: usize = 1 << 14;

    /// The name as an event holds it.
    pub fn intern(&mut self, name: &str) -> Name {
        if let Some(known) = self.0.get(name) {
            return Name::clone(known);
        }
        let shared = Name::from(name);
        if self.0.len() < Self::LIMIT {
            self.0.insert(Name::clone(&shared));
        }
        shared
    }
}
