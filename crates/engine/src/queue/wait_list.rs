//! An intrusive first-in first-out list of waiting tasks.
//!
//! A task waits in one place at a time, so it has one link, and a list is three words,
//! whatever its length.

use std::cell::Cell;

use crate::ids::NONE;

pub(crate) struct WaitList {
    /// Head and tail mean something only while the list is not empty.
    head: Cell<u32>,
    tail: Cell<u32>,
    /// Number of tasks behind the first; -1, as it wraps round, if there is none.
    behind: Cell<u32>,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        Self {
            head: Cell::new(NONE),
            tail: Cell::new(NONE),
            behind: Cell::new(u32::MAX),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.behind.get().wrapping_add(1)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.behind.get() == u32::MAX
    }

    /// Appends `id`, which must be in no list.
    #[inline]
    pub(crate) fn push_back(&self, links: &[Cell<u32>], id: u32) {
        let tail = self.tail.replace(id);
        let behind = self.behind.get().wrapping_add(1);
        self.behind.set(behind);
        if behind == 0 {
            self.head.set(id);
        } else {
            links[tail as usize].set(id);
        }
    }

    /// Removes the task that has waited for longest.
    #[inline]
    pub(crate) fn pop_front(&self, links: &[Cell<u32>]) -> Option<u32> {
        (!self.is_empty()).then(|| self.take_front(links))
    }

    /// Removes the task that has waited for longest from a list that is not empty.
    #[inline]
    pub(crate) fn take_front(&self, links: &[Cell<u32>]) -> u32 {
        let id = self.head.get();
        // Of the last one this is the link of some time before, and is not looked at.
        self.head.set(links[id as usize].get());
        self.behind.set(self.behind.get().wrapping_sub(1));
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec((0u8..2, 0u32..8), 0..200)) {
            let links = vec![Cell::new(NONE); 8];
            let list = WaitList::new();
            let mut oracle = VecDeque::new();
            for (op, id) in ops {
                match op {
                    0 if !oracle.contains(&id) => {
                        list.push_back(&links, id);
                        oracle.push_back(id);
                    }
                    1 => prop_assert_eq!(list.pop_front(&links), oracle.pop_front()),
                    _ => {}
                }
                prop_assert_eq!(list.len() as usize, oracle.len());
                prop_assert_eq!(list.is_empty(), oracle.is_empty());
            }
        }
    }
}
