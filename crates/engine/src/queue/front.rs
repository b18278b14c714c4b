//! The timers while they are few: sorted, in an array along which they slide.

use std::cell::Cell;

use crate::time::Time;

/// So many places; when the last is taken, timers move back to the first ones.
const PLACES: usize = 256;
/// So many timers are few when that happens.
const FEW: usize = 16;

/// A timer: when it is due, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) at: u64,
    pub(crate) id: u32,
}

/// Timers in order of their due times, equal ones in order of insertion. The place before the first
/// holds no later time than any timer: it is looked at instead of asking whether there is a timer.
pub(crate) struct Front {
    /// Due times, one place further on than ids.
    due: [Cell<u64>; PLACES + 2],
    ids: [Cell<u32>; PLACES],
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Front {
    pub(crate) const fn new() -> Self {
        Self {
            due: [const { Cell::new(0) }; PLACES + 2],
            ids: [const { Cell::new(0) }; PLACES],
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline]
    fn get(&self, place: usize) -> Timer {
        let place = place % PLACES;
        Timer {
            at: self.due[place + 1].get(),
            id: self.ids[place].get(),
        }
    }

    #[inline]
    fn set(&self, place: usize, due: Timer) {
        let place = place % PLACES;
        self.due[place + 1].set(due.at);
        self.ids[place].set(due.id);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    /// The place for another timer. If there is none, [`Front::slide_back`] may help.
    #[inline]
    pub(crate) fn room(&self) -> Option<usize> {
        Some(self.tail.get()).filter(|&place| place < PLACES)
    }

    /// Moves all timers to the first places; whether they are few.
    pub(crate) fn slide_back(&self) -> bool {
        let (head, tail) = (self.head.get(), self.tail.get());
        (head..tail).for_each(|place| self.set(place - head, self.get(place)));
        self.due[0].set(0);
        self.head.set(0);
        self.tail.set(tail - head);
        tail - head <= FEW
    }

    /// True if every timer is due later than `time`.
    #[inline]
    pub(crate) fn is_after(&self, time: Time) -> bool {
        self.is_empty() || time.0 < self.get(self.head.get()).at
    }

    /// Adds a timer behind all that are not due later, where there is [room](Front::room). `false`,
    /// like [`Timers::insert_few`](crate::queue::timers::Timers::insert_few).
    #[inline]
    pub(crate) fn insert(&self, room: usize, due: Timer) -> bool {
        if self.due[room % PLACES].get() > due.at {
            return self.insert_before(room, due);
        }
        self.set(room, due);
        self.tail.set(room + 1);
        false
    }

    /// Moves what is due later back by one place, from that before `gap` on.
    #[inline(never)]
    fn insert_before(&self, mut gap: usize, due: Timer) -> bool {
        self.tail.set(gap + 1);
        while gap != self.head.get() {
            let before = self.get(gap - 1);
            if before.at <= due.at {
                break;
            }
            self.set(gap, before);
            gap -= 1;
        }
        self.set(gap, due);
        false
    }

    /// Takes the first timer; the flag is whether the next one may be due at the same time.
    #[inline]
    pub(crate) fn pop(&self) -> Option<(Timer, bool)> {
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        self.head.set(head + 1);
        let due = self.get(head);
        Some((due, self.due[head % PLACES + 2].get() == due.at))
    }

    /// Takes all timers, the first one first.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = Timer> + '_ {
        let timers = self.head.get()..self.tail.get();
        self.head.set(0);
        self.tail.set(0);
        timers.map(|place| self.get(place))
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
        self.tail.set(tail - 1);
        true
    }
}
