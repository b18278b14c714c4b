//! Wall time of phases. Enters no figure.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pagetoll_backend::Timing;

/// The phases that have ended.
#[derive(Default)]
pub(crate) struct Clock {
    timings: Mutex<Vec<Timing>>,
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

    /// In the order in which the phases ended.
    pub(crate) fn timings(self) -> Vec<Timing> {
        self.timings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
