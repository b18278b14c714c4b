//! What a reader saw besides the events that it handed over.

use std::collections::BTreeMap;

use super::{Lost, Machine};

/// Unknown events that are counted apart by name: a kernel has some 2500 tracepoints. The rest is one sum.
pub const MAX_NAMES: usize = 4096;

/// Where a trace ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The byte, from 0, that was expected and is not there.
    pub offset: u64,
    /// What ends there.
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
    /// The trace ends early: the events before that are sound.
    pub truncated: Option<Truncated>,
    /// Where it was recorded.
    pub machine: Machine,
}

impl Tally {
    /// All unknown events.
    #[must_use]
    pub fn unknown_events(&self) -> u64 {
        self.unknown.values().sum::<u64>() + self.unknown_others
    }

    pub(crate) fn count_unknown(&mut self, name: &str) {
        if let Some(count) = self.unknown.get_mut(name) {
            *count += 1;
        } else if self.unknown.len() < MAX_NAMES {
            self.unknown.insert(name.to_owned(), 1);
        } else {
            self.unknown_others += 1;
        }
    }

    pub(crate) fn count_unreadable(&mut self, describe: impl FnOnce() -> String) {
        self.unreadable += 1;
        self.first_unreadable.get_or_insert_with(describe);
    }

    pub(crate) fn count_lost(&mut self, lost: &Lost) {
        match lost.records {
            Some(records) => self.lost = self.lost.saturating_add(records),
            None => self.gaps += 1,
        }
    }

    /// Keeps the first place.
    pub(crate) fn truncated_at(&mut self, offset: u64, inside: &'static str) {
        self.truncated.get_or_insert(Truncated { offset, inside });
    }
}

/// The two ways in which perf reports what was lost, which overlap.
///
/// `PERF_RECORD_LOST` is written at the next record that found space, with its time. `PERF_RECORD_LOST_SAMPLES` is
/// perf's own sum for each event, written at the end (`record__read_lost_samples`, perf 6.1), and has also what was lost
/// after the last record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) gaps: u64,
    pub(crate) sums: u64,
}

impl Losses {
    /// What the sums have and the gaps have not, once the trace has ended.
    pub(crate) fn rest(self) -> Option<Lost> {
        let rest = self.sums.checked_sub(self.gaps).filter(|&rest| rest > 0)?;
        Some(Lost {
            time: None,
            cpu: None,
            records: Some(rest),
        })
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

    #[test]
    fn what_both_reports_have_is_counted_once() {
        let rest = |gaps, sums| Losses { gaps, sums }.rest().and_then(|lost| lost.records);
        assert_eq!(rest(636, 0), None);
        assert_eq!(rest(636, 600), None);
        assert_eq!(rest(636, 640), Some(4));
    }
}
