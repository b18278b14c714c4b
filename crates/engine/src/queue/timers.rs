//! The timer queue of an engine: the front while timers are few, the wheel when they are many.

use std::cell::Cell;

use crate::queue::front::{Front, Timer};
use crate::queue::ready::ReadyQueue;
use crate::queue::wheel::Wheel;
use crate::time::Time;

/// The place of all timers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Front,
    Wheel,
}

/// A queue that holds all timers.
pub(crate) enum TimerQueue<'a> {
    Front(&'a Front),
    Wheel(&'a Wheel),
}

/// The clock, and one timer per id. Ids are tasks, cores and the limit of a run.
pub(crate) struct Timers {
    /// The present: no timer is due before.
    pub(crate) now: Cell<Time>,
    place: Cell<Place>,
    front: Front,
    wheel: Wheel,
    /// Due times of timers set by [`Timers::insert`], by id; those that are over mean nothing.
    set: Box<[Cell<Time>]>,
}

impl Timers {
    /// An empty queue for ids below `ids`.
    pub(crate) fn new(ids: usize) -> Self {
        Self {
            now: Cell::new(Time::ZERO),
            place: Cell::new(Place::Front),
            front: Front::new(),
            wheel: Wheel::new(ids),
            set: vec![Cell::new(Time::ZERO); ids].into(),
        }
    }

    /// Sets the timer of `id`, which must not be set, to `due`, which must not be over, for
    /// [`Timers::cancel`].
    pub(crate) fn insert(&self, id: u32, due: Time) {
        self.set[id as usize].set(due);
        self.start(id, due);
    }

    /// Sets the timer of `id` for [`Timers::take_out`]: the caller keeps the time at which it is due.
    #[inline(never)]
    pub(crate) fn start(&self, id: u32, due: Time) {
        match self.queue() {
            TimerQueue::Front(front) => {
                let timer = Timer { at: due.0, id };
                if !front.push(timer) && !front.insert(timer) {
                    self.spill(timer);
                }
            }
            TimerQueue::Wheel(wheel) => wheel.insert(id, due.0),
        }
    }

    /// The queue that holds all timers.
    #[inline]
    pub(crate) fn queue(&self) -> TimerQueue<'_> {
        match self.place.get() {
            Place::Front => TimerQueue::Front(&self.front),
            Place::Wheel => TimerQueue::Wheel(&self.wheel),
        }
    }

    /// Moves all timers to the wheel, and then one more.
    #[cold]
    #[inline(never)]
    fn spill(&self, newest: Timer) {
        self.place.set(Place::Wheel);
        self.wheel.start(self.now.get().0);
        for timer in self.front.take_all() {
            self.wheel.insert(timer.id, timer.at);
        }
        self.wheel.insert(newest.id, newest.at);
    }

    /// Returns whether all timers are due later than `due` for sure.
    pub(crate) fn are_after(&self, due: Time) -> bool {
        match self.queue() {
            TimerQueue::Front(front) => front.is_after(due),
            TimerQueue::Wheel(wheel) => wheel.is_after(due.0),
        }
    }

    /// Returns whether no timer is set.
    pub(crate) fn is_empty(&self) -> bool {
        match self.queue() {
            TimerQueue::Front(front) => front.is_empty(),
            TimerQueue::Wheel(wheel) => wheel.is_empty(),
        }
    }

    /// Takes all timers of the earliest due time, to which the clock goes on: returns the first id, and
    /// appends the others to `ready`, in the order in which they were set.
    #[inline]
    pub(crate) fn pop(&self, ready: &ReadyQueue) -> Option<usize> {
        let Some((first, more)) = self.front.pop() else {
            return self.pop_many(ready);
        };
        self.now.set(Time(first.at));
        if more {
            self.pop_equal(first.at, ready);
        }
        Some(first.id as usize)
    }

    #[inline(never)]
    fn pop_equal(&self, at: u64, ready: &ReadyQueue) {
        while let Some(equal) = self.front.pop_at(at) {
            ready.push(equal.id);
        }
    }

    #[inline]
    fn pop_many(&self, ready: &ReadyQueue) -> Option<usize> {
        let TimerQueue::Wheel(wheel) = self.queue() else {
            return None;
        };
        let (due, first) = wheel.pop(ready, || self.place.set(Place::Front))?;
        self.now.set(due);
        Some(first as usize)
    }

    /// Clears a timer set by [`Timers::insert`]; whether it was still set.
    pub(crate) fn cancel(&self, id: u32) -> bool {
        let due = self.set[id as usize].replace(Time::ZERO);
        due > self.now.get() && self.take_out(id, due)
    }

    /// Clears a timer that was set to `due`, which must not be over; whether it was there.
    pub(crate) fn take_out(&self, id: u32, due: Time) -> bool {
        match self.queue() {
            TimerQueue::Front(front) => front.remove(id),
            TimerQueue::Wheel(wheel) => wheel.remove(id, due.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDS: u32 = 300;

    /// Operation of a test on a queue; times are relative to the last pop.
    #[derive(Clone, Debug)]
    enum Op {
        Insert { id: u32, after: u64 },
        InsertUnlessNext { id: u32, after: u64 },
        Cancel { id: u32 },
        Pop,
    }

    fn after() -> impl Strategy<Value = u64> {
        prop_oneof![
            1..4u64,
            1..200u64,
            1..10_000u64,
            (0..40u32).prop_map(|bits| 1 << bits)
        ]
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let id = 0..IDS;
        let op = prop_oneof![
            4 => (id.clone(), after()).prop_map(|(id, after)| Op::Insert { id, after }),
            1 => (id.clone(), after()).prop_map(|(id, after)| Op::InsertUnlessNext { id, after }),
            1 => id.prop_map(|id| Op::Cancel { id }),
            3 => Just(Op::Pop),
        ];
        prop::collection::vec(op, 0..1500)
    }

    /// Output of a queue: times popped, the ids of each, and times cancelled.
    #[derive(Debug, Default, PartialEq)]
    struct Log {
        popped: Vec<(Time, Vec<u32>)>,
        cancelled: Vec<bool>,
    }

    /// The queue under test, and the oracle.
    trait Queue {
        fn insert(&mut self, id: u32, due: Time);
        fn are_after(&self, due: Time) -> bool;
        /// Goes on to a time at which nothing is due.
        fn advance(&mut self, now: Time);
        /// Takes all timers of the earliest due time.
        fn pop(&mut self) -> Option<(Time, Vec<u32>)>;
        fn cancel(&mut self, id: u32) -> bool;
    }

    impl Queue for (Timers, ReadyQueue) {
        fn insert(&mut self, id: u32, due: Time) {
            self.0.insert(id, due);
        }

        fn are_after(&self, due: Time) -> bool {
            self.0.are_after(due)
        }

        fn advance(&mut self, now: Time) {
            self.0.now.set(now);
        }

        fn pop(&mut self) -> Option<(Time, Vec<u32>)> {
            let (timers, ready) = self;
            let Some(first) = timers.pop(ready) else {
                assert!(timers.is_empty());
                return None;
            };
            let others = std::iter::from_fn(|| ready.pop());
            let ids = std::iter::once(first)
                .chain(others)
                .map(|id| u32::try_from(id).unwrap())
                .collect();
            Some((timers.now.get(), ids))
        }

        fn cancel(&mut self, id: u32) -> bool {
            self.0.cancel(id)
        }
    }

    /// Timers in order of insertion.
    #[derive(Default)]
    struct Oracle(Vec<(Time, u32)>);

    impl Oracle {
        fn earliest(&self) -> Option<Time> {
            self.0.iter().map(|(due, _)| *due).min()
        }
    }

    impl Queue for Oracle {
        fn insert(&mut self, id: u32, due: Time) {
            self.0.push((due, id));
        }

        fn are_after(&self, due: Time) -> bool {
            self.earliest().is_none_or(|earliest| due < earliest)
        }

        fn advance(&mut self, _: Time) {}

        fn pop(&mut self) -> Option<(Time, Vec<u32>)> {
            let earliest = self.earliest()?;
            let due = self.0.extract_if(.., |timer| timer.0 == earliest);
            Some((earliest, due.map(|(_, id)| id).collect()))
        }

        fn cancel(&mut self, id: u32) -> bool {
            let before = self.0.len();
            self.0.retain(|timer| timer.1 != id);
            self.0.len() < before
        }
    }

    struct Driver<Q> {
        queue: Q,
        now: Time,
        set: Vec<bool>,
        log: Log,
    }

    impl<Q: Queue> Driver<Q> {
        fn new(queue: Q) -> Self {
            Self {
                queue,
                now: Time::ZERO,
                set: vec![false; IDS as usize],
                log: Log::default(),
            }
        }

        fn pop(&mut self) -> bool {
            let Some((at, ids)) = self.queue.pop() else {
                return false;
            };
            assert!(at >= self.now, "time goes on");
            ids.iter().for_each(|&id| self.set[id as usize] = false);
            self.now = at;
            self.log.popped.push((at, ids));
            true
        }

        /// Sets the timer; one that would have been next is popped at once, as if it had been set.
        fn insert(&mut self, id: u32, after: u64, unless_next: bool) {
            if std::mem::replace(&mut self.set[id as usize], true) {
                return;
            }
            let due = Time(self.now.0 + after);
            if !unless_next {
                self.queue.insert(id, due);
            } else if self.queue.are_after(due) {
                self.queue.advance(due);
                self.now = due;
                self.set[id as usize] = false;
                self.log.popped.push((due, vec![id]));
            } else {
                self.queue.insert(id, due);
                self.pop();
            }
        }

        fn run(mut self, ops: &[Op]) -> Log {
            for op in ops {
                match *op {
                    Op::Insert { id, after } => self.insert(id, after, false),
                    Op::InsertUnlessNext { id, after } => self.insert(id, after, true),
                    Op::Cancel { id } => {
                        self.set[id as usize] = false;
                        let cancelled = self.queue.cancel(id);
                        self.log.cancelled.push(cancelled);
                    }
                    Op::Pop => drop(self.pop()),
                }
            }
            while self.pop() {}
            self.log
        }
    }

    proptest! {
        #[test]
        fn timers_follow_the_oracle(ops in ops()) {
            let timers = (Timers::new(IDS as usize), ReadyQueue::new(IDS as usize));
            let log = Driver::new(timers).run(&ops);
            prop_assert_eq!(log, Driver::new(Oracle::default()).run(&ops));
        }
    }

    #[test]
    fn equal_times_stay_in_order_across_all_levels() {
        let mut timers = (Timers::new(100), ReadyQueue::new(100));
        let due = Time(1 << 50);
        (0..40).for_each(|id| timers.insert(id, due));
        timers.insert(99, Time(due.0 - 1));
        assert_eq!(timers.pop(), Some((Time(due.0 - 1), vec![99])));
        (40..80).for_each(|id| timers.insert(id, due));
        assert_eq!(timers.pop(), Some((due, (0..80).collect())));
    }

    #[test]
    fn the_end_of_time_can_be_reached() {
        let mut timers = (Timers::new(100), ReadyQueue::new(100));
        (0..50).for_each(|id| timers.insert(id, Time(u64::MAX - u64::from(id % 2))));
        let odd = (1..50).step_by(2).collect();
        assert_eq!(timers.pop(), Some((Time(u64::MAX - 1), odd)));
        let even = (0..50).step_by(2).collect();
        assert_eq!(timers.pop(), Some((Time::MAX, even)));
    }
}
