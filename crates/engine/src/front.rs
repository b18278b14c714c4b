//! The few timers that are due first, sorted: a short ring that timers pass through on their way out
//! of the wheel, or do not leave at all while there are few.

use std::cell::Cell;

use crate::time::Time;

/// Room for so many timers.
const ROOM: usize = 16;

/// A timer: when it is due, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) at: u64,
    pub(crate) id: u32,
}

/// Timers in order of their due times, equal ones in order of insertion.
pub(crate) struct Front {
    ring: [Cell<Due>; ROOM],
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Front {
    pub(crate) const fn new() -> Self {
        Self {
            ring: [const { Cell::new(Due { at: 0, id: 0 }) }; ROOM],
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline]
    fn slot(&self, number: usize) -> &Cell<Due> {
        &self.ring[number % ROOM]
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.tail.get() - self.head.get() >= ROOM
    }

    /// Whether every timer is due later than `time`.
    #[inline]
    pub(crate) fn is_after(&self, time: Time) -> bool {
        self.is_empty() || time.0 < self.slot(self.head.get()).get().at
    }

    /// Adds a timer behind all that are not due later. There must be room.
    #[inline]
    pub(crate) fn insert(&self, due: Due) {
        let mut gap = self.tail.get();
        self.tail.set(gap + 1);
        while gap != self.head.get() {
            let before = self.slot(gap - 1).get();
            if before.at <= due.at {
                break;
            }
            self.slot(gap).set(before);
            gap -= 1;
        }
        self.slot(gap).set(due);
    }

    /// Takes the first timer.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Due> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head + 1);
        Some(self.slot(head).get())
    }

    /// Takes the first timer if it is due at `at`.
    #[inline]
    pub(crate) fn pop_at(&self, at: u64) -> Option<Due> {
        if self.slot(self.head.get()).get().at == at {
            self.pop()
        } else {
            None
        }
    }

    /// Takes the timer of `id` out and returns when it would have been due.
    pub(crate) fn remove(&self, id: u32) -> Option<Time> {
        let (head, tail) = (self.head.get(), self.tail.get());
        let found = (head..tail).find(|&number| self.slot(number).get().id == id)?;
        let at = self.slot(found).get().at;
        for number in found + 1..tail {
            self.slot(number - 1).set(self.slot(number).get());
        }
        self.tail.set(tail - 1);
        Some(Time(at))
    }
}
