//! Spans of time in which records were lost.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Event, Lost};

/// Gaps that are kept apart; past these, they grow together.
const MOST: usize = 1 << 16;

/// Gaps of a capture, in the order of their begin once [`Gaps::finish`]ed: from the last record of a CPU before its loss to the
/// record that says so. Other CPUs' records lie within.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    last: BTreeMap<Option<u32>, u64>,
    latest: u64,
    spans: Vec<(u64, u64)>,
}

impl Gaps {
    pub(super) fn see(&mut self, event: &Event) {
        if let Some(reading) = event.time.reading() {
            self.last.insert(event.cpu, reading);
            self.latest = self.latest.max(reading);
        }
    }

    pub(super) fn lose(&mut self, lost: &Lost) {
        let begin = match (lost.cpu, lost.time) {
            (Some(_), Some(_)) => self.last.get(&lost.cpu).copied().unwrap_or(0),
            // On some CPU, after the last record that it could write.
            _ => self.last.values().min().copied().unwrap_or(0),
        };
        let end = lost.time.map_or(u64::MAX, |time| time.0);
        let is_full = self.spans.len() >= MOST;
        match self.spans.last_mut() {
            Some(last) if is_full => {
                *last = (last.0.min(begin), last.1.max(end));
            }
            _ => self.spans.push((begin, end.max(begin))),
        }
    }

    pub(super) fn finish(mut self) -> Vec<(u64, u64)> {
        self.spans.sort_unstable();
        self.spans
    }
}

/// Position of a reader among gaps.
#[derive(Debug, Default)]
pub(super) struct InGaps {
    gaps: std::collections::VecDeque<(u64, u64)>,
    end: Option<u64>,
}

impl InGaps {
    pub(super) fn new(gaps: Vec<(u64, u64)>) -> Self {
        Self {
            gaps: gaps.into(),
            end: None,
        }
    }

    /// Returns whether records may be missing between the one before and this one.
    pub(super) fn is_within(&mut self, time: u64) -> bool {
        while let Some(&(begin, end)) = self.gaps.front() {
            if begin >= time {
                break;
            }
            self.gaps.pop_front();
            self.end = self.end.max(Some(end));
        }
        let within = self.end.is_some();
        self.end = self.end.filter(|&end| time <= end);
        within
    }
}
