//! The reference timer queue: a binary heap ordered by due time and then by insertion.
//!
//! Slower than the wheel and obviously right; both must give the same trace.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::queue::ready::Ready;
use crate::time::Time;

/// Due time, number of the insertion, id.
type Entry = Reverse<(Time, u64, u32)>;

/// Due time and number of the insertion, while the timer is set.
type Setting = Option<(Time, u64)>;

pub(crate) struct Heap {
    entries: RefCell<BinaryHeap<Entry>>,
    inserted: Cell<u64>,
    /// By id, the due time and the insertion that counts; entries of other insertions are stale.
    set: Box<[Cell<Setting>]>,
}

impl Heap {
    /// An empty queue for ids below `ids`.
    pub(crate) fn new(ids: usize) -> Self {
        Self {
            entries: RefCell::new(BinaryHeap::with_capacity(ids)),
            inserted: Cell::new(0),
            set: vec![Cell::new(None); ids].into(),
        }
    }

    /// Sets the timer of `id`, which must not be set. `false`, like [`Timers::insert_few`](crate::queue::timers::Timers::insert_few).
    #[cold]
    pub(crate) fn insert(&self, id: u32, due: Time) -> bool {
        let number = self.inserted.get();
        self.inserted.set(number + 1);
        let before = self.set[id as usize].replace(Some((due, number)));
        debug_assert!(before.is_none(), "one timer per id");
        self.entries.borrow_mut().push(Reverse((due, number, id)));
        false
    }

    /// The earliest due time.
    pub(crate) fn earliest(&self) -> Option<Time> {
        let mut entries = self.entries.borrow_mut();
        while let Some(&Reverse((due, number, id))) = entries.peek() {
            if self.counts(id, number) {
                return Some(due);
            }
            entries.pop();
        }
        None
    }

    fn counts(&self, id: u32, number: u64) -> bool {
        self.set[id as usize]
            .get()
            .is_some_and(|(_, counting)| counting == number)
    }

    /// Whether all timers are due later than `due`.
    #[cold]
    pub(crate) fn is_after(&self, due: Time) -> bool {
        self.earliest().is_none_or(|earliest| due < earliest)
    }

    /// Takes all timers of the earliest due time: returns that time and the first id, and appends the
    /// others to `ready`.
    #[cold]
    pub(crate) fn pop(&self, ready: &Ready) -> Option<(Time, u32)> {
        let due = self.earliest()?;
        let first = self.take_first()?;
        while self.earliest() == Some(due) {
            ready.push(self.take_first()?);
        }
        Some((due, first))
    }

    /// Removes the entry that [`Heap::earliest`] has just looked at.
    fn take_first(&self) -> Option<u32> {
        let Reverse((_, _, id)) = self.entries.borrow_mut().pop()?;
        self.set[id as usize].set(None);
        Some(id)
    }

    /// Clears the timer of `id`; whether it was set.
    pub(crate) fn cancel(&self, id: u32) -> bool {
        self.set[id as usize].take().is_some()
    }
}
