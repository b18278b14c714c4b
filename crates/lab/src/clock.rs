//! Wall time of phases, for whoever asks where it went. Enters no figure.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The phases that have ended.
#[derive(Default)]
pub(crate) struct Clock {
    timings: Mutex<Vec<(String, Duration)>>,
}

impl Clock {
    /// Does some work, which is a phase.
    pub(crate) fn time<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.push((what.to_owned(), began.elapsed()));
        result
    }

    /// What was done, and how long it took, in the order in which it ended.
    pub(crate) fn timings(self) -> Vec<(String, Duration)> {
        self.timings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
