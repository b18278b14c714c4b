//! Counts of a reader of traces, as those of its capture.

use pagetoll_ftrace::tracepoint::Tally;
use pagetoll_text::{LeftOut, NumberedLine};

use crate::Capture;

impl Capture {
    /// The capture of a trace that was read with these counts.
    #[must_use]
    pub fn with_tally(self, tally: &Tally) -> Self {
        let mut unknown = tally.unknown.clone();
        let mut more = |name: &str, count: u64| {
            if count > 0 {
                unknown.insert(name.to_owned(), count);
            }
        };
        more("(events of other names)", tally.unknown_others);
        more("(events that lack a field)", tally.unreadable);
        more("(gaps of unknown length)", tally.gaps);
        let truncated = tally.truncated.as_ref();
        let mut left_out = left_out(tally);
        left_out.extend(self.left_out);
        Self {
            kernel: tally.machine.kernel.clone(),
            arch: tally.machine.arch.clone(),
            lost: tally.lost,
            truncated: truncated
                .map(|end| format!("byte {}: ends inside {}", end.offset, end.inside)),
            unknown,
            left_out,
            first_unreadable: tally.first_unreadable.clone(),
            ..self
        }
    }
}

/// Lines of a trace that are no event.
fn left_out(tally: &Tally) -> LeftOut {
    let first = tally.first_other.as_ref().map(|(number, text)| {
        NumberedLine::new(usize::try_from(*number).unwrap_or(usize::MAX), text)
    });
    LeftOut {
        lines: tally.other_lines,
        first,
    }
}
