//! Turns of threads that share a CPU.
//!
//! The scheduler runs the thread that has had the CPU for the shortest time (kernel/sched/fair.c, `pick_next_entity`), and
//! spinning counts: a thread goes on for as long as the others had the CPU before, and for a slice at least.

use pagetoll_engine::{Cx, Ticks, Time};

use super::costs::ticks;

/// Time that a thread which does not sleep keeps its CPU from others: shorter than the scheduler's slice, so that a
/// short run sees them all. Assumed; switching is taken to be rare.
const SLICE_NANOS: f64 = 100_000.0;

/// A thread's turn on its CPU.
pub(crate) struct Turn {
    since: Time,
    entitled: Ticks,
}

impl Turn {
    /// A turn of a slice that begins now.
    pub(crate) fn new(cx: &Cx) -> Self {
        Self {
            since: cx.now(),
            entitled: ticks(SLICE_NANOS),
        }
    }

    /// Returns whether another thread is due.
    pub(crate) fn is_over(&self, cx: &Cx) -> bool {
        cx.now().since(self.since) > self.entitled
    }

    /// Lets the others have the CPU; the next turn.
    pub(crate) async fn end(self, cx: &Cx) -> Self {
        let gave = cx.now();
        cx.yield_core().await;
        let waited = cx.now().since(gave);
        Self {
            since: cx.now(),
            entitled: waited.max(ticks(SLICE_NANOS)),
        }
    }
}
