//! When a bill was made: wall time of its phases, and of counts that were kept from an earlier run. Enters no figure.

use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use pagetoll_backend::{Billed, Stacks, Timing};
use pagetoll_bill::{Draft, Inputs};

/// The phases that have ended, and the oldest counts.
#[derive(Default)]
pub(crate) struct Clock {
    timings: Mutex<Vec<Timing>>,
    counted: Mutex<Option<SystemTime>>,
}

impl Clock {
    /// Does some work, which is a phase.
    pub(crate) fn time<T>(&self, phase: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.push(Timing::since(began, phase));
        result
    }

    /// Takes note of counts that were made in an earlier run.
    pub(crate) fn counted_before(&self, when: Option<SystemTime>) {
        let mut oldest = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *oldest = [*oldest, when].into_iter().flatten().min();
    }

    /// A draft with what is known of its time.
    pub(crate) fn billed(self, draft: Draft, stacks: Stacks) -> Billed {
        let timings = self.timings.into_inner();
        let counted = self.counted.into_inner();
        let counted = counted.unwrap_or_else(PoisonError::into_inner);
        Billed {
            draft: Draft {
                inputs: Inputs {
                    counted: counted
                        .map(|when| humantime::format_rfc3339_seconds(when).to_string()),
                    ..draft.inputs
                },
                ..draft
            },
            timings: timings.unwrap_or_else(PoisonError::into_inner),
            stacks,
        }
    }
}
