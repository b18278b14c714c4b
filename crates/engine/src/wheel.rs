//! A hierarchical timing wheel: 11 levels of 64 slots cover all of `u64`, one timer per id.
//!
//! Up to 16 timers are kept sorted in the [`Front`], and the wheel proper is empty. One more, and all
//! move to the wheel, until that is empty again.
//!
//! On the wheel, a timer is on the level of the highest 6-bit digit in which its due time differs from
//! the wheel's position, in the slot that this digit names; so everything on a lower level is due
//! before anything on a higher one. A slot holding one timer is popped from whatever level it is on; a
//! slot holding several is dealt out to the levels below in the order of insertion. Equal due times
//! therefore stay first in, first out: they share a slot until they are popped together.
//!
//! The position only moves when a timer is popped, and may lag behind the clock. It never enters the
//! span of an occupied slot, so a timer can always be found again from its due time; and a timer is
//! on the wheel just while it is due after the position.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987.

use std::cell::Cell;
use std::num::NonZero;

use crate::front::{Due, Front};
use crate::ids::NONE;
use crate::ready::Ready;
use crate::time::Time;

/// Slots of one level: the values of a 6-bit digit.
const SLOTS: usize = 64;
/// Shift of the second level.
const SECOND: u32 = 6;
/// Shifts that a level can have, used or not: tables are indexed by shift, not by level.
const SHIFTS: usize = 64;

/// By the highest bit in which due time and position differ, how far to shift the digit down.
const SHIFT_OF_BIT: [u8; SHIFTS] = {
    let mut shifts = [0; SHIFTS];
    let mut bit = 0u8;
    while (bit as usize) < SHIFTS {
        shifts[bit as usize] = bit - bit % 6;
        bit += 1;
    }
    shifts
};

/// One id's timer: when it is due and its neighbours in the slot.
#[derive(Clone)]
struct Link {
    due: Cell<u64>,
    next: Cell<u32>,
    prev: Cell<u32>,
}

/// One slot: the shift of its level and its digit there, both below 64.
#[derive(Clone, Copy)]
struct Slot {
    shift: u32,
    digit: u32,
}

impl Slot {
    /// Its place in [`Wheel::slots`].
    #[inline]
    fn index(self) -> usize {
        (self.shift as usize % SHIFTS) * SLOTS + self.digit as usize % SLOTS
    }
}

/// First and last timer of a slot, meaningful only where the level's occupancy bit is set.
#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

pub(crate) struct Wheel {
    /// Levels that hold a timer: bit `shift` each.
    levels: Cell<u64>,
    position: Cell<u64>,
    /// The time last popped.
    popped: Cell<u64>,
    front: Front,
    links: Box<[Link]>,
    /// By shift, the slots that hold a timer: bit `digit` each.
    occupied: [Cell<u64>; SHIFTS],
    slots: Box<[Cell<Ends>; SHIFTS * SLOTS]>,
}

impl Wheel {
    /// A wheel at time zero for ids below `ids`.
    pub(crate) fn new(ids: usize) -> Self {
        let link = Link {
            due: Cell::new(0),
            next: Cell::new(NONE),
            prev: Cell::new(NONE),
        };
        Self {
            levels: Cell::new(0),
            position: Cell::new(0),
            popped: Cell::new(0),
            front: Front::new(),
            links: vec![link; ids].into(),
            occupied: [const { Cell::new(0) }; SHIFTS],
            slots: Box::new([const { Cell::new(Ends { head: 0, tail: 0 }) }; SHIFTS * SLOTS]),
        }
    }

    /// Sets the timer of `id`, which must not be set, to `due`, which must not be over.
    #[inline]
    pub(crate) fn insert(&self, id: u32, due: Time) {
        if self.levels.get() != 0 {
            self.place(id, due.0, self.slot_of(due.0));
        } else {
            self.insert_in_front(Due { at: due.0, id });
        }
    }

    /// Like [`Wheel::insert`]; but if all timers are due later than `due` for sure, sets nothing and
    /// returns `true`.
    #[inline]
    pub(crate) fn insert_unless_next(&self, id: u32, due: Time) -> bool {
        if self.levels.get() != 0 {
            let slot = self.slot_of(due.0);
            let next = self.precedes_all(slot);
            if !next {
                self.place(id, due.0, slot);
            }
            return next;
        }
        let next = self.front.is_after(due);
        if !next {
            self.insert_in_front(Due { at: due.0, id });
        }
        next
    }

    #[inline]
    fn insert_in_front(&self, due: Due) {
        if self.front.is_full() {
            return self.spill(due);
        }
        self.front.insert(due);
    }

    /// Moves the front to the wheel, and then one more timer.
    #[cold]
    #[inline(never)]
    fn spill(&self, newest: Due) {
        self.position.set(self.popped.get());
        while let Some(due) = self.front.pop() {
            self.place(due.id, due.at, self.slot_of(due.at));
        }
        self.place(newest.id, newest.at, self.slot_of(newest.at));
    }

    /// The slot that a due time belongs to.
    #[inline]
    fn slot_of(&self, due: u64) -> Slot {
        let highest = ((self.position.get() ^ due) | 1).ilog2();
        let shift = u32::from(SHIFT_OF_BIT[highest as usize % SHIFTS]);
        Slot {
            shift,
            digit: (due >> shift & 0x3f) as u32,
        }
    }

    /// Whether all timers are in later slots.
    #[inline]
    fn precedes_all(&self, Slot { shift, digit }: Slot) -> bool {
        self.levels.get() & ((1 << shift) - 1) == 0
            && self.occupied(shift).get() & (u64::MAX >> (63 - digit)) == 0
    }

    #[inline]
    fn occupied(&self, shift: u32) -> &Cell<u64> {
        &self.occupied[shift as usize % SHIFTS]
    }

    /// Appends a timer to its slot.
    #[inline]
    fn place(&self, id: u32, due: u64, slot: Slot) {
        let link = &self.links[id as usize];
        link.due.set(due);
        let ends = &self.slots[slot.index()];
        let occupied = self.occupied(slot.shift);
        if occupied.get() >> slot.digit & 1 == 0 {
            occupied.set(occupied.get() | 1 << slot.digit);
            self.levels.set(self.levels.get() | 1 << slot.shift);
            ends.set(Ends { head: id, tail: id });
        } else {
            let Ends { head, tail } = ends.get();
            self.links[tail as usize].next.set(id);
            link.prev.set(tail);
            ends.set(Ends { head, tail: id });
        }
    }

    /// Whether no timer is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.get() == 0 && self.front.is_empty()
    }

    /// Takes all timers of the earliest due time: returns that time and the first id, and appends the
    /// others to `ready`.
    #[inline]
    pub(crate) fn pop(&self, ready: &Ready) -> Option<(Time, u32)> {
        if let Some(first) = self.front.pop() {
            self.popped.set(first.at);
            while let Some(equal) = self.front.pop_at(first.at) {
                ready.push(equal.id);
            }
            return Some((Time(first.at), first.id));
        }
        self.pop_slot(ready)
    }

    /// [`Wheel::pop`] for the wheel proper.
    #[inline]
    fn pop_slot(&self, ready: &Ready) -> Option<(Time, u32)> {
        loop {
            let shift = NonZero::new(self.levels.get())?.trailing_zeros();
            let slot = Slot {
                shift,
                digit: self.occupied(shift).get().trailing_zeros(),
            };
            let ends = self.slots[slot.index()].get();
            self.vacate(slot);
            let due = self.links[ends.head as usize].due.get();
            if ends.head != ends.tail {
                if shift != 0 {
                    self.position.set(due >> shift << shift);
                    self.deal_out(ends, shift);
                    continue;
                }
                self.push_rest(ends, ready);
            }
            self.position.set(due);
            self.popped.set(due);
            return Some((Time(due), ends.head));
        }
    }

    /// Marks a slot empty.
    #[inline]
    fn vacate(&self, slot: Slot) {
        let occupied = self.occupied(slot.shift);
        occupied.set(occupied.get() & !(1 << slot.digit));
        if occupied.get() == 0 {
            self.levels.set(self.levels.get() & !(1 << slot.shift));
        }
    }

    /// Puts the timers of a slot that has been vacated onto lower levels, in order.
    fn deal_out(&self, ends: Ends, shift: u32) {
        if shift == SECOND {
            return self.deal_out_ticks(ends);
        }
        let mut id = ends.head;
        loop {
            let link = &self.links[id as usize];
            let (due, next) = (link.due.get(), link.next.get());
            self.place(id, due, self.slot_of(due));
            if id == ends.tail {
                return;
            }
            id = next;
        }
    }

    /// Deals out a slot of the second level: the lowest one is empty, and each of its slots is a tick.
    fn deal_out_ticks(&self, ends: Ends) {
        let (mut id, mut occupied) = (ends.head, 0u64);
        loop {
            let link = &self.links[id as usize];
            let next = link.next.get();
            let digit = link.due.get() & 0x3f;
            let slot = &self.slots[(digit & 0x3f) as usize];
            let before = slot.get();
            if occupied >> digit & 1 == 0 {
                slot.set(Ends { head: id, tail: id });
            } else {
                self.links[before.tail as usize].next.set(id);
                link.prev.set(before.tail);
                slot.set(Ends {
                    head: before.head,
                    tail: id,
                });
            }
            occupied |= 1 << digit;
            if id == ends.tail {
                break;
            }
            id = next;
        }
        self.occupied(0).set(occupied);
        self.levels.set(self.levels.get() | 1);
    }

    /// Appends all but the first timer of a slot to `ready`.
    fn push_rest(&self, ends: Ends, ready: &Ready) {
        let mut id = ends.head;
        while id != ends.tail {
            id = self.links[id as usize].next.get();
            ready.push(id);
        }
    }

    /// Clears the timer of `id` and returns when it would have been due; `None` if it is not set.
    pub(crate) fn cancel(&self, id: u32) -> Option<Time> {
        if let Some(due) = self.front.remove(id) {
            return Some(due);
        }
        let link = &self.links[id as usize];
        let due = link.due.get();
        if self.levels.get() == 0 || due <= self.position.get() {
            return None;
        }
        link.due.set(0);
        let slot = self.slot_of(due);
        let ends = &self.slots[slot.index()];
        let Ends { head, tail } = ends.get();
        match (id == head, id == tail) {
            (true, true) => self.vacate(slot),
            (true, false) => ends.set(Ends {
                head: link.next.get(),
                tail,
            }),
            (false, true) => ends.set(Ends {
                head,
                tail: link.prev.get(),
            }),
            (false, false) => {
                self.links[link.prev.get() as usize]
                    .next
                    .set(link.next.get());
                self.links[link.next.get() as usize]
                    .prev
                    .set(link.prev.get());
            }
        }
        Some(Time(due))
    }
}
