//! Counts of all that a reader saw besides the events that it handed over.

use std::collections::{BTreeMap, BTreeSet};

use super::{Known, Lost, Machine};

/// Unknown events that are counted apart by name: a kernel has some 2500 tracepoints. The rest is one sum.
pub const MAX_NAMES: usize = 4096;

/// Early end of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The byte, from 0, that was expected and is not there.
    pub offset: u64,
    /// Structure that ends there.
    pub inside: &'static str,
}

/// Counts of a trace, complete when its reader has returned the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events handed over.
    pub events: u64,
    /// Events without a payload here, by name (`kvm:kvm_fpu`, as the trace has it).
    pub unknown: BTreeMap<String, u64>,
    /// Unknown events under further names than [`MAX_NAMES`].
    pub unknown_others: u64,
    /// Events that should have a payload, but lack a field.
    pub unreadable: u64,
    /// The first of them: where, and which field.
    pub first_unreadable: Option<String>,
    /// Records that the trace says were lost.
    pub lost: u64,
    /// Gaps of which the trace does not say how many records they cost.
    pub gaps: u64,
    /// Events handed over after a later one: recorded so, or too many at once to sort.
    pub out_of_order: u64,
    /// Lines of a text that are no event, such as call chains. Empty lines and comments do not count.
    pub other_lines: u64,
    /// The first of them, with its number, from 1; of a long one, the beginning.
    pub first_other: Option<(u64, String)>,
    /// The trace ends early: the events before that are sound.
    pub truncated: Option<Truncated>,
    /// Machine that it was recorded on.
    pub machine: Machine,
    /// Tracepoints with a payload that were recorded, such as `kvm:kvm_exit`, as far as the head of a trace names them: that
    /// there is no event of them says that none happened.
    pub recorded: BTreeSet<String>,
}

impl Tally {
    /// All unknown events.
    #[must_use]
    pub fn unknown_events(&self) -> u64 {
        self.unknown.values().sum::<u64>() + self.unknown_others
    }

    /// Counts an event without a payload.
    pub fn count_unknown(&mut self, name: &str) {
        if let Some(count) = self.unknown.get_mut(name) {
            *count += 1;
        } else if self.unknown.len() < MAX_NAMES {
            self.unknown.insert(name.to_owned(), 1);
        } else {
            self.unknown_others += 1;
        }
    }

    /// Notes that a tracepoint, `SYSTEM:NAME`, was recorded. One without a payload is left out: there are as many as a file
    /// names.
    pub fn count_recorded(&mut self, name: &str) {
        let split = name.split_once(':');
        if split.is_some_and(|(system, event)| Known::named(Some(system), event).is_some()) {
            self.recorded.insert(name.to_owned());
        }
    }

    /// Counts an event that lacks a field; of the first, says which and where.
    pub fn count_unreadable(&mut self, describe: impl FnOnce() -> String) {
        self.unreadable += 1;
        self.first_unreadable.get_or_insert_with(describe);
    }

    /// Counts a line that is no event.
    pub fn count_other(&mut self, number: u64, line: &str) {
        const CHARACTERS: usize = 80;
        self.other_lines += 1;
        self.first_other
            .get_or_insert_with(|| (number, line.trim().chars().take(CHARACTERS).collect()));
    }

    /// Counts a gap.
    pub fn count_lost(&mut self, lost: &Lost) {
        match lost.records {
            Some(records) => self.lost = self.lost.saturating_add(records),
            None => self.gaps += 1,
        }
    }

    /// Notes where the trace ends early; the first call counts.
    pub fn truncated_at(&mut self, offset: u64, inside: &'static str) {
        self.truncated.get_or_insert(Truncated { offset, inside });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_the_sum_is_whole() {
        let mut tally = Tally::default();
        for index in 0..MAX_NAMES + 10 {
            tally.count_unknown(&format!("s:{index}"));
            tally.count_unknown("s:0");
        }
        assert_eq!(tally.unknown.len(), MAX_NAMES);
        assert_eq!(tally.unknown_others, 10);
        assert_eq!(tally.unknown_events(), 2 * (MAX_NAMES as u64 + 10));
    }
}
