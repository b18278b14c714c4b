//! A hierarchical timing wheel: ten levels cover all of `u64`, one timer per id.
//!
//! A timer is near if it is due in the present 2048 ticks or in the next: each of these has a slot of
//! its own. Otherwise it is on the level of the highest 6-bit digit in which its due time differs from
//! the last near one (lowest digits aside), in the slot that this digit names. So everything near, or
//! on a lower level, is due before anything on a higher one. A slot holding one timer is popped from
//! whatever level it is on; a slot holding several is dealt out to the levels below in the order of
//! insertion. Equal due times therefore stay first in, first out: they share a slot until they are
//! popped together.
//!
//! What is near only changes when a timer is popped, and may lag behind the clock. Its end never enters
//! the span of an occupied slot, so a timer can always be found again from its due time.
//!
//! After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987.

use std::cell::Cell;
use std::num::NonZero;

use crate::ids::NONE;
use crate::ready::Ready;
use crate::time::Time;

/// Ticks with a slot of their own.
const NEAR: usize = 4096;
/// By so many ticks, what is near moves on.
const HALF: u64 = NEAR as u64 / 2;
/// Slots of one of the other levels: the values of a 6-bit digit.
const SLOTS: usize = 64;
/// Shifts that a level can have, used or not: tables are indexed by shift, not by level.
const SHIFTS: usize = 64;

/// By the highest bit in which a due time differs from the last near one, how far to shift the digit
/// down; the lowest digit that counts begins at [`HALF`].
const SHIFT_OF_BIT: [u8; SHIFTS] = {
    let mut shifts = [0; SHIFTS];
    let mut bit = 0u8;
    while (bit as usize) < SHIFTS {
        shifts[bit as usize] = if bit < 11 { 11 } else { bit - (bit - 11) % 6 };
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

/// First and last timer of a slot, meaningful only where its occupancy bit is set.
#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

/// A slot that is not near: the shift of its level and its digit there, both below 64.
#[derive(Clone, Copy)]
struct Far {
    shift: u32,
    digit: u32,
}

impl Far {
    /// Its place in [`Wheel::far`].
    #[inline]
    fn index(self) -> usize {
        (self.shift as usize % SHIFTS) * SLOTS + self.digit as usize % SLOTS
    }
}

/// A slot, and the word and the bit that tell whether it is occupied.
struct Slot<'a> {
    ends: &'a Cell<Ends>,
    word: &'a Cell<u64>,
    bit: usize,
}

pub(crate) struct Wheel {
    /// Where what is near starts: a multiple of [`HALF`].
    start: Cell<u64>,
    /// Words of `ticks` that are not zero.
    words: Cell<u64>,
    /// Near slots that hold a timer: a bit each.
    ticks: [Cell<u64>; NEAR / 64],
    /// Other levels that hold a timer: bit `shift` each.
    levels: Cell<u64>,
    links: Box<[Link]>,
    near: [Cell<Ends>; NEAR],
    /// By shift, the slots that hold a timer: bit `digit` each.
    occupied: [Cell<u64>; SHIFTS],
    far: Box<[Cell<Ends>; SHIFTS * SLOTS]>,
}

impl Wheel {
    /// A wheel for ids below `ids`.
    pub(crate) fn new(ids: usize) -> Self {
        let link = Link {
            due: Cell::new(0),
            next: Cell::new(NONE),
            prev: Cell::new(NONE),
        };
        Self {
            start: Cell::new(0),
            words: Cell::new(0),
            ticks: [const { Cell::new(0) }; NEAR / 64],
            levels: Cell::new(0),
            links: vec![link; ids].into(),
            near: [const { Cell::new(Ends { head: 0, tail: 0 }) }; NEAR],
            occupied: [const { Cell::new(0) }; SHIFTS],
            far: Box::new([const { Cell::new(Ends { head: 0, tail: 0 }) }; SHIFTS * SLOTS]),
        }
    }

    /// Moves an empty wheel to `now`.
    pub(crate) fn start(&self, now: u64) {
        self.start.set(now & !(HALF - 1));
    }

    /// The last near multiple of [`HALF`], or 0 at the end of time, when everything is near.
    #[inline]
    fn last(&self) -> u64 {
        self.start.get().wrapping_add(HALF)
    }

    /// Sets the timer of `id`, which must not be set, to `due`, which must not be over.
    #[inline]
    pub(crate) fn insert(&self, id: u32, due: u64) {
        self.links[id as usize].due.set(due);
        if !self.is_near(due) {
            return self.insert_far(id, due);
        }
        let tick = near_index(due);
        let Slot { ends, word, bit } = self.near_slot(tick);
        let ticks = word.get();
        if ticks >> bit & 1 != 0 {
            return self.append(id, ends);
        }
        if ticks == 0 {
            self.words.set(self.words.get() | 1 << (tick / 64 % 64));
        }
        word.set(ticks | 1 << bit);
        ends.set(Ends { head: id, tail: id });
    }

    #[inline(never)]
    fn insert_far(&self, id: u32, due: u64) {
        let far = self.far_of(due);
        let Slot { ends, word, bit } = self.far_slot(far);
        if word.get() >> bit & 1 != 0 {
            return self.append(id, ends);
        }
        self.levels.set(self.levels.get() | 1 << far.shift);
        word.set(word.get() | 1 << bit);
        ends.set(Ends { head: id, tail: id });
    }

    /// Adds a timer to the end of a slot that is occupied.
    #[inline(never)]
    fn append(&self, id: u32, slot: &Cell<Ends>) {
        let Ends { head, tail } = slot.get();
        self.links[tail as usize].next.set(id);
        self.links[id as usize].prev.set(tail);
        slot.set(Ends { head, tail: id });
    }

    #[inline]
    fn is_near(&self, due: u64) -> bool {
        due.wrapping_sub(self.start.get()) < NEAR as u64
    }

    #[inline]
    fn near_slot(&self, tick: usize) -> Slot<'_> {
        Slot {
            ends: &self.near[tick % NEAR],
            word: &self.ticks[tick / 64 % SLOTS],
            bit: tick % 64,
        }
    }

    #[inline]
    fn far_slot(&self, far: Far) -> Slot<'_> {
        Slot {
            ends: &self.far[far.index()],
            word: &self.occupied[far.shift as usize % SHIFTS],
            bit: far.digit as usize,
        }
    }

    /// The slot of a due time that is not near.
    #[inline]
    fn far_of(&self, due: u64) -> Far {
        let highest = (self.last() ^ due | 1).ilog2();
        let shift = u32::from(SHIFT_OF_BIT[highest as usize % SHIFTS]);
        Far {
            shift,
            digit: (due >> shift & 0x3f) as u32,
        }
    }

    /// Whether all timers are due later than `due` for sure.
    pub(crate) fn is_after(&self, due: u64) -> bool {
        if !self.is_far() {
            return self.near_is_after(due);
        }
        if self.is_near(due) {
            return true;
        }
        let Far { shift, digit } = self.far_of(due);
        self.levels.get() & ((1 << shift) - 1) == 0
            && self.occupied[shift as usize % SHIFTS].get() << (63 - digit) == 0
    }

    /// Whether no timer is near.
    #[inline]
    pub(crate) fn is_far(&self) -> bool {
        self.words.get() == 0
    }

    /// [`Wheel::is_after`] where some are near.
    #[inline]
    pub(crate) fn near_is_after(&self, due: u64) -> bool {
        let word = due.wrapping_sub(self.start.get()) / 64;
        word < u64::from(self.words_from_start().trailing_zeros())
    }

    /// [`Wheel::words`], the first of them in bit 0.
    #[inline]
    fn words_from_start(&self) -> u64 {
        self.words
            .get()
            .rotate_right((self.start.get() / 64 % 64) as u32)
    }

    /// Whether no timer is set.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.get() | self.words.get() == 0
    }

    /// Takes all timers of the earliest due time: returns that time and the first id, and appends the
    /// others to `ready`. Calls `when_empty` if there are no more.
    #[inline]
    pub(crate) fn pop(&self, ready: &Ready, when_empty: impl FnOnce()) -> Option<(Time, u32)> {
        if self.words.get() == 0 {
            return self.fetch(ready, when_empty);
        }
        self.pop_near(ready, when_empty)
    }

    /// [`Wheel::pop`] among the near.
    #[inline]
    fn pop_near(&self, ready: &Ready, when_empty: impl FnOnce()) -> Option<(Time, u32)> {
        let mut number = u64::from(NonZero::new(self.words_from_start())?.trailing_zeros());
        if number >= HALF / 64 {
            self.advance();
            number -= HALF / 64;
        }
        let from = self.start.get() + number * 64;
        let word = &self.ticks[near_index(from) / 64];
        let ticks = word.get();
        word.set(ticks & ticks.wrapping_sub(1));
        if word.get() == 0 {
            self.words.set(self.words.get() & !(1 << (from / 64 % 64)));
            if self.is_empty() {
                when_empty();
            }
        }
        // A word that is marked is not zero.
        let due = from | u64::from(ticks.trailing_zeros() % 64);
        let ends = self.near[near_index(due)].get();
        if ends.head != ends.tail {
            self.push_rest(ends, ready);
        }
        Some((Time(due), ends.head))
    }

    /// Moves on to the second half of what is near, and brings near what is due after it.
    #[inline(never)]
    fn advance(&self) {
        let last = self.last();
        let next = last.wrapping_add(HALF);
        let far = self.far_of(next);
        self.start.set(last);
        if self.levels.get() != 0
            && self.occupied[far.shift as usize % SHIFTS].get() >> far.digit & 1 != 0
        {
            let ends = self.far[far.index()].get();
            self.vacate(far);
            self.deal_out(ends);
        }
    }

    /// [`Wheel::pop`] where nothing is near: takes the next timer if it is alone in its slot, or else
    /// brings near what is.
    #[inline(never)]
    fn fetch(&self, ready: &Ready, when_empty: impl FnOnce()) -> Option<(Time, u32)> {
        while self.words.get() == 0 {
            let shift = NonZero::new(self.levels.get())?.trailing_zeros();
            let digit = self.occupied[shift as usize % SHIFTS]
                .get()
                .trailing_zeros();
            let far = Far { shift, digit };
            let ends = self.far[far.index()].get();
            self.vacate(far);
            let due = self.links[ends.head as usize].due.get();
            if ends.head == ends.tail {
                self.start.set((due & !(HALF - 1)).wrapping_sub(HALF));
                self.advance();
                if self.is_empty() {
                    when_empty();
                }
                return Some((Time(due), ends.head));
            }
            self.start.set((due >> shift << shift).wrapping_sub(HALF));
            self.deal_out(ends);
        }
        self.pop_near(ready, when_empty)
    }

    /// Marks a slot empty that is not near.
    #[inline]
    fn vacate(&self, Far { shift, digit }: Far) {
        let occupied = &self.occupied[shift as usize % SHIFTS];
        occupied.set(occupied.get() & !(1 << digit));
        if occupied.get() == 0 {
            self.levels.set(self.levels.get() & !(1 << shift));
        }
    }

    /// Puts the timers of a slot that has been vacated onto lower levels, in order.
    fn deal_out(&self, ends: Ends) {
        let mut id = ends.head;
        loop {
            let link = &self.links[id as usize];
            let (due, next) = (link.due.get(), link.next.get());
            self.insert(id, due);
            if id == ends.tail {
                return;
            }
            id = next;
        }
    }

    /// Appends all but the first timer of a slot to `ready`.
    #[inline(never)]
    fn push_rest(&self, ends: Ends, ready: &Ready) {
        let mut id = ends.head;
        while id != ends.tail {
            id = self.links[id as usize].next.get();
            ready.push(id);
        }
    }

    /// Clears the timer of `id` and returns when it would have been due; `None` if it is not set.
    pub(crate) fn cancel(&self, id: u32, now: u64) -> Option<Time> {
        let link = &self.links[id as usize];
        let due = link.due.replace(0);
        if due <= now {
            return None;
        }
        let slot = if self.is_near(due) {
            self.near_slot(near_index(due))
        } else {
            self.far_slot(self.far_of(due))
        };
        let Ends { head, tail } = slot.ends.get();
        let (prev, next) = (link.prev.get(), link.next.get());
        match (id == head, id == tail) {
            (true, true) => self.clear(due),
            (true, false) => slot.ends.set(Ends { head: next, tail }),
            (false, true) => slot.ends.set(Ends { head, tail: prev }),
            (false, false) => {
                self.links[prev as usize].next.set(next);
                self.links[next as usize].prev.set(prev);
            }
        }
        Some(Time(due))
    }

    /// Marks the slot of `due` empty.
    fn clear(&self, due: u64) {
        if !self.is_near(due) {
            return self.vacate(self.far_of(due));
        }
        let tick = near_index(due);
        let word = &self.ticks[tick / 64 % SLOTS];
        word.set(word.get() & !(1 << (tick % 64)));
        if word.get() == 0 {
            self.words.set(self.words.get() & !(1 << (tick / 64 % 64)));
        }
    }
}

/// The place of a near due time in [`Wheel::near`].
#[inline]
fn near_index(due: u64) -> usize {
    const { assert!(NEAR == 0x1000) };
    (due & 0xfff) as usize
}
