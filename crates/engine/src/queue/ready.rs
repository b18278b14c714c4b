//! The ring of tasks that may run now, first in, first out.
//!
//! Holds each id at most once, so a ring as large as the number of ids never fills.

use std::cell::Cell;

/// No id is first.
const NO_ID: usize = usize::MAX;

pub(crate) struct ReadyQueue {
    /// The id that has been ready for longest, kept out of the ring: mostly it is the only one.
    first: Cell<usize>,
    /// All others.
    ring: Box<[Cell<u32>]>,
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl ReadyQueue {
    /// A ring for `ids` ids.
    pub(crate) fn new(ids: usize) -> Self {
        Self {
            first: Cell::new(NO_ID),
            ring: vec![Cell::new(0); ids.max(1).next_power_of_two()].into(),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get() == NO_ID
    }

    /// Puts `id` before all others, for good: what was first is lost.
    pub(crate) fn replace_first(&self, id: u32) {
        self.first.set(id as usize);
    }

    /// Appends `id`, to be polled after all that are ready.
    #[inline]
    pub(crate) fn push(&self, id: u32) {
        if self.is_empty() {
            self.first.set(id as usize);
        } else {
            self.push_behind(id);
        }
    }

    #[inline(never)]
    fn push_behind(&self, id: u32) {
        let tail = self.tail.get();
        debug_assert!(
            tail.wrapping_sub(self.head.get()) < self.ring.len(),
            "an id is ready twice"
        );
        self.ring[tail & (self.ring.len() - 1)].set(id);
        self.tail.set(tail.wrapping_add(1));
    }

    /// Takes the id that has been ready for longest.
    #[inline]
    pub(crate) fn pop(&self) -> Option<usize> {
        let first = self.first.get();
        if first == NO_ID {
            return None;
        }
        let head = self.head.get();
        self.first.set(if head == self.tail.get() {
            NO_ID
        } else {
            self.head.set(head.wrapping_add(1));
            self.ring[head & (self.ring.len() - 1)].get() as usize
        });
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_round_the_end() {
        let ready = ReadyQueue::new(3);
        for round in 0..10 {
            for id in 0..4 {
                ready.push(round * 4 + id);
            }
            for id in 0..4 {
                assert_eq!(ready.pop(), Some((round * 4 + id) as usize));
            }
            assert!(ready.is_empty());
            assert_eq!(ready.pop(), None);
        }
    }
}
