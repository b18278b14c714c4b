//! The timers while they are few: sorted, in an array along which they slide.

use std::cell::Cell;

use crate::time::Time;

/// So many places; when the last is taken, timers move back to the first ones. An index of a place is
/// a byte, which needs no check against them.
const PLACES: u8 = u8::MAX;
/// So many timers are few when that happens.
const FEW: u8 = 16;

/// A timer: when it is due, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) at: u64,
    pub(crate) id: u32,
}

/// Timers in order of their due times, equal ones in order of insertion. The place before the first
/// holds no later time than any timer, and all places after the last hold the end of time: they are
/// looked at instead of asking whether there is a timer.
pub(crate) struct Front {
    /// Due times, one place further on than ids.
    due: [Cell<u64>; PLACES as usize + 3],
    ids: [Cell<u32>; PLACES as usize + 1],
    head: Cell<u8>,
    tail: Cell<u8>,
}

impl Front {
    pub(crate) fn new() -> Self {
        let front = Self {
            due: [const { Cell::new(u64::MAX) }; PLACES as usize + 3],
            ids: [const { Cell::new(0) }; PLACES as usize + 1],
            head: Cell::new(0),
            tail: Cell::new(0),
        };
        front.due[0].set(0);
        front
    }

    /// The due time of a place.
    #[inline]
    fn due(&self, place: u8) -> &Cell<u64> {
        &self.due[usize::from(place) + 1]
    }

    #[inline]
    fn get(&self, place: u8) -> Timer {
        Timer {
            at: self.due(place).get(),
            id: self.ids[usize::from(place)].get(),
        }
    }

    #[inline]
    fn set(&self, place: u8, timer: Timer) {
        self.due(place).set(timer.at);
        self.ids[usize::from(place)].set(timer.id);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    /// True if every timer is due later than `time`; false at the end of time, even without a timer.
    #[inline]
    pub(crate) fn is_after(&self, time: Time) -> bool {
        time.0 < self.due(self.head.get()).get()
    }

    /// Adds a timer that is due no earlier than all others; `false` if it is, or there is no place.
    #[inline]
    pub(crate) fn push(&self, timer: Timer) -> bool {
        let tail = self.tail.get();
        if tail == PLACES || self.due[usize::from(tail)].get() > timer.at {
            return false;
        }
        self.set(tail, timer);
        self.tail.set(tail + 1);
        true
    }

    /// Adds a timer behind all that are not due later; `false` if there are too many.
    pub(crate) fn insert(&self, timer: Timer) -> bool {
        if self.tail.get() == PLACES && !self.slide_back() {
            return false;
        }
        let mut gap = self.tail.get();
        self.tail.set(gap + 1);
        // The place before the first holds no later time: this ends there.
        while gap != self.head.get() {
            let before = self.get(gap - 1);
            if before.at <= timer.at {
                break;
            }
            self.set(gap, before);
            gap -= 1;
        }
        self.set(gap, timer);
        true
    }

    /// Moves all timers to the first places; whether they are few.
    fn slide_back(&self) -> bool {
        let (head, tail) = (self.head.get(), self.tail.get());
        (head..tail).for_each(|place| self.set(place - head, self.get(place)));
        self.head.set(0);
        self.truncate(tail - head);
        tail - head <= FEW
    }

    /// Lets timers end before `place`.
    fn truncate(&self, place: u8) {
        let over = place..self.tail.replace(place);
        over.for_each(|place| self.due(place).set(u64::MAX));
    }

    /// Takes the first timer; the flag is whether the next one may be due at the same time.
    #[inline]
    pub(crate) fn pop(&self) -> Option<(Timer, bool)> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head.wrapping_add(1));
        let timer = self.get(head);
        let next = self.due[usize::from(head) + 2].get();
        Some((timer, next == timer.at))
    }

    /// Takes all timers, the first one first.
    pub(crate) fn take_all(&self) -> Vec<Timer> {
        let timers = (self.head.get()..self.tail.get())
            .map(|place| self.get(place))
            .collect();
        self.truncate(0);
        self.head.set(0);
        timers
    }

    /// Takes the first timer if it is due at `at`.
    pub(crate) fn pop_at(&self, at: u64) -> Option<Timer> {
        let is_due = !self.is_empty() && self.get(self.head.get()).at == at;
        is_due.then(|| self.pop()).flatten().map(|(due, _)| due)
    }

    /// Takes the timer of `id` out; whether there was one.
    pub(crate) fn remove(&self, id: u32) -> bool {
        let (head, tail) = (self.head.get(), self.tail.get());
        let Some(found) = (head..tail).find(|&place| self.get(place).id == id) else {
            return false;
        };
        for place in found + 1..tail {
            self.set(place - 1, self.get(place));
        }
        self.truncate(tail - 1);
        true
    }
}
