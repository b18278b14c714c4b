//! Losses as perf reports them.

use pagetoll_ftrace::tracepoint::Lost;

/// The two ways in which perf reports what was lost, which overlap.
///
/// `PERF_RECORD_LOST` is written at the next record that found space, with its time. `PERF_RECORD_LOST_SAMPLES` is
/// perf's own sum for each event, written at the end (`record__read_lost_samples`, perf 6.1), and has also what was lost
/// after the last record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) gaps: u64,
    pub(super) sums: u64,
}

impl Losses {
    /// Records that the sums have and the gaps have not, once the trace has ended.
    pub(super) fn rest(self) -> Option<Lost> {
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
    fn what_both_reports_have_is_counted_once() {
        let rest = |gaps, sums| Losses { gaps, sums }.rest().and_then(|lost| lost.records);
        assert_eq!(rest(636, 0), None);
        assert_eq!(rest(636, 600), None);
        assert_eq!(rest(636, 640), Some(4));
    }
}
