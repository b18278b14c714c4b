//! Records in the order of their times.
//!
//! perf reads one CPU's buffer after the other and writes `PERF_RECORD_FINISHED_ROUND` when it has read all: what is older
//! than the newest record of the round before cannot come any more. Source: `ordered_events__flush` of
//! `tools/perf/util/ordered-events.c`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pagetoll_units::budget::{Budget, in_vector};

/// Records that wait for older ones. When there are more, the oldest goes first, whatever comes; such an event is counted
/// as out of order. They take some 500 MB then, and so many are kept of a file only that has as many bytes of samples.
pub const MAX_QUEUED: usize = 4 << 20;

/// A queue by time; equal times stay in the order of the file.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Reverse<Queued<T>>>,
    limit: usize,
    budget: Budget,
    arrived: u64,
    newest: u64,
    /// Time up to which items can go.
    complete_to: Option<u64>,
    newest_of_round: Option<u64>,
}

#[derive(Debug)]
struct Queued<T> {
    time: u64,
    arrival: u64,
    what: T,
}

impl<T> Queue<T> {
    /// A queue that holds back no more than `limit` records.
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            heap: BinaryHeap::new(),
            limit,
            budget: Budget::new(0),
            arrived: 0,
            newest: 0,
            complete_to: None,
            newest_of_round: None,
        }
    }

    pub(super) fn push(&mut self, time: u64, what: T) {
        let arrival = self.arrived;
        self.arrived += 1;
        self.newest = self.newest.max(time);
        self.heap.push(Reverse(Queued {
            time,
            arrival,
            what,
        }));
    }

    /// Lets as many more wait as so many bytes of samples may take memory for.
    pub(super) const fn allow(&mut self, bytes: usize) {
        self.budget.grow(bytes);
    }

    pub(super) const fn finish_round(&mut self) {
        self.complete_to = self.newest_of_round;
        self.newest_of_round = Some(self.newest);
    }

    /// No more records will come.
    pub(super) const fn finish(&mut self) {
        self.complete_to = Some(u64::MAX);
    }

    /// The oldest record, if none can come that is older.
    pub(super) fn pop(&mut self) -> Option<T> {
        let Reverse(oldest) = self.heap.peek()?;
        let complete = self.complete_to.is_some_and(|time| oldest.time <= time);
        let most = self.budget.fits(in_vector::<Queued<T>>()).min(self.limit);
        let full = self.heap.len() > most;
        let queued = (complete || full).then(|| self.heap.pop()).flatten();
        queued.map(|Reverse(queued)| queued.what)
    }
}

impl<T> Queued<T> {
    const fn key(&self) -> (u64, u64) {
        (self.time, self.arrival)
    }
}

impl<T> Ord for Queued<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> PartialOrd for Queued<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Queued<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Queued<T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain<T>(queue: &mut Queue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    /// The example of perf's own comment: two CPUs, three rounds.
    #[test]
    fn a_round_releases_what_the_next_cannot_precede() {
        let mut queue = Queue::new(1000);
        for (round, released) in [
            (vec![1, 2, 3, 2, 3, 4], vec![]),
            (vec![3, 4, 5, 5, 6, 7], vec![1, 2, 2, 3, 3, 3, 4, 4]),
            (vec![6, 7, 8, 8, 9, 10], vec![5, 5, 6, 6, 7, 7]),
        ] {
            for time in round {
                queue.push(time, time);
            }
            queue.finish_round();
            assert_eq!(drain(&mut queue), released);
        }
        queue.finish();
        assert_eq!(drain(&mut queue), [8, 8, 9, 10]);
    }

    #[test]
    fn a_full_queue_lets_the_oldest_go() {
        let mut queue = Queue::new(2);
        let mut released = Vec::new();
        for time in [5, 3, 4, 1, 9] {
            queue.push(time, time);
            released.extend(drain(&mut queue));
        }
        assert_eq!(released, [3, 1, 4]);
        queue.finish();
        assert_eq!(drain(&mut queue), [5, 9]);
    }

    proptest! {
        /// Against a stable sort of the whole.
        #[test]
        fn everything_comes_once_and_in_order(times in prop::collection::vec(0_u64..50, 0..100)) {
            let mut queue = Queue::new(1000);
            for (index, time) in times.iter().enumerate() {
                queue.push(*time, (*time, index));
            }
            queue.finish();
            let mut sorted: Vec<_> = times.into_iter().enumerate().map(|(index, time)| (time, index)).collect();
            sorted.sort();
            prop_assert_eq!(drain(&mut queue), sorted);
        }
    }
}
