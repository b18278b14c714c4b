//! A cancellation token: somebody asks, everybody who waits looks.
//!
//! It installs no signal handler; the command line does, and calls [`Stop::request`] from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// The work was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Stopped;

/// Whether the work should end early. Clones share one flag; once requested it stays requested.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// Whoever asks here asks for this one as well.
    whole: Option<Arc<AtomicBool>>,
}

impl Stop {
    /// A token that nobody has asked to stop yet.
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

    /// Asks everybody who holds a clone to stop. Only stores to an atomic, so a signal handler may call it.
    pub fn request(&self) {
        self.flag.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked to stop.
    #[must_use]
    pub fn requested(&self) -> bool {
        let asked = |flag: &Arc<AtomicBool>| flag.load(Ordering::SeqCst);
        asked(&self.flag) || self.whole.as_ref().is_some_and(asked)
    }

    /// `Err(Stopped)` once somebody asked to stop; for use between steps of long work.
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
    fn clones_share_the_request() {
        let stop = Stop::new();
        let clone = stop.clone();
        assert!(clone.check().is_ok());
        stop.request();
        assert!(clone.requested());
        assert!(matches!(clone.check(), Err(Stopped)));
    }
}
