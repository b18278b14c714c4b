//! The timers while they are few: sorted, in a short ring.

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
    /// Due times and ids, by number of the place modulo [`ROOM`].
    due: [Cell<u64>; ROOM],
    ids: [Cell<u32>; ROOM],
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Front {
    pub(crate) const fn new() -> Self {
        Self {
            due: [const { Cell::new(0) }; ROOM],
            ids: [const { Cell::new(0) }; ROOM],
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline]
    fn due_at(&self, place: usize) -> &Cell<u64> {
        &self.due[place % ROOM]
    }

    #[inline]
    fn get(&self, place: usize) -> Due {
        Due {
            at: self.due_at(place).get(),
            id: self.ids[place % ROOM].get(),
        }
    }

    #[inline]
    fn set(&self, place: usize, due: Due) {
        self.due_at(place).set(due.at);
        self.ids[place % ROOM].set(due.id);
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
        self.is_empty() || time.0 < self.due_at(self.head.get()).get()
    }

    /// Adds a timer behind all that are not due later. There must be room.
    #[inline]
    pub(crate) fn insert(&self, due: Due) {
        let tail = self.tail.get();
        self.tail.set(tail + 1);
        if tail == self.head.get() || self.due_at(tail.wrapping_sub(1)).get() <= due.at {
            self.set(tail, due);
        } else {
            self.insert_before(tail, due);
        }
    }

    /// Moves what is due later back by one place, from that before `gap` on.
    #[inline(never)]
    fn insert_before(&self, mut gap: usize, due: Due) {
        while gap != self.head.get() {
            let before = self.get(gap - 1);
            if before.at <= due.at {
                break;
            }
            self.set(gap, before);
            gap -= 1;
        }
        self.set(gap, due);
    }

    /// Takes the first timer.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Due> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head + 1);
        Some(self.get(head))
    }

    /// Takes the first timer if it is due at `at`.
    #[inline]
    pub(crate) fn pop_at(&self, at: u64) -> Option<Due> {
        if self.due_at(self.head.get()).get() == at {
            self.pop()
        } else {
            None
        }
    }

    /// Takes the timer of `id` out and returns when it would have been due.
    pub(crate) fn remove(&self, id: u32) -> Option<Time> {
        let (head, tail) = (self.head.get(), self.tail.get());
        let found = (head..tail).find(|&place| self.get(place).id == id)?;
        let at = self.get(found).at;
        for place in found + 1..tail {
            self.set(place - 1, self.get(place));
        }
        self.tail.set(tail - 1);
        Some(Time(at))
    }
}
