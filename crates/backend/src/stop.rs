//! A cancellation token.
//!
//! It installs no signal handler; the command line does, and calls [`Stop::request`] from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::threads;

/// The longest sleep between two looks at a thread.
const POLL: Duration = Duration::from_millis(20);

/// The work was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Stopped;

/// Request for an early end. Clones share one flag; once requested it stays requested.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// A request on this one counts for this token too.
    whole: Option<Arc<AtomicBool>>,
}

impl Stop {
    /// A token without a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token over an existing flag, for handlers that can only set an `AtomicBool`.
    #[must_use]
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self { flag, whole: None }
    }

    /// A token for a part of the work: it also stops when this one does, and can be asked to alone.
    #[must_use]
    pub fn for_part(&self) -> Self {
        debug_assert!(self.whole.is_none(), "a part is not divided again");
        Self {
            flag: Arc::default(),
            whole: Some(Arc::clone(&self.flag)),
        }
    }

    /// Requests a stop of all clones. Only stores to an atomic, so a signal handler may call it.
    pub fn request(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }

    /// True if a stop was requested.
    #[must_use]
    pub fn requested(&self) -> bool {
        let asked = |flag: &Arc<AtomicBool>| flag.load(Ordering::SeqCst);
        asked(&self.flag) || self.whole.as_ref().is_some_and(asked)
    }

    /// Runs work that only computes on a thread of its own, and leaves it there once a stop was requested: it goes on
    /// until it looks at its own clone of this, or this process ends.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn leave<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let thread = thread::spawn(work);
        let mut pause = Duration::from_millis(1);
        while !thread.is_finished() {
            self.check()?;
            thread::sleep(pause);
            pause = (pause * 2).min(POLL);
        }
        Ok(threads::result(thread.join()))
    }

    /// `Err(Stopped)` once a stop was requested; for use between steps of long work.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn check(&self) -> Result<(), Stopped> {
        if self.requested() {
            Err(Stopped)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn a_part_ends_with_the_whole_and_not_the_other_way_round() {
        let whole = Stop::new();
        let (one, other) = (whole.for_part(), whole.for_part());
        one.request();
        assert!(one.requested() && !whole.requested() && !other.requested());
        whole.request();
        assert!(other.requested());
    }

    #[test]
    fn work_is_left_when_a_stop_is_requested_and_its_result_returned_otherwise() {
        let stop = Stop::new();
        assert_eq!(stop.leave(|| 7), Ok(7));
        let (asks, (sender, receiver)) = (stop.clone(), std::sync::mpsc::channel::<()>());
        // Ends when the sender is gone.
        let left = stop.leave(move || {
            asks.request();
            receiver.recv().is_err()
        });
        assert_eq!(left, Err(Stopped));
        drop(sender);
        let panicked = panic::catch_unwind(|| Stop::new().leave(|| panic!("as in place")));
        assert!(panicked.is_err());
    }

    #[test]
    fn clones_share_the_request() {
        let stop = Stop::new();
        let clone = stop.clone();
        assert!(clone.check().is_ok());
        stop.request();
        assert!(clone.requested());
        assert!(matches!(clone.check(), Err(Stopped)));
    }
}
