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
use crate::queue::ready::ReadyQueue;
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

/// One id's timer.
#[derive(Clone)]
struct Link {
    /// Due time; unused while the timer is near, where the slot implies it.
    due: Cell<u64>,
    /// Neighbours in a slot that holds several; the last precedes the first.
    next: Cell<u32>,
    prev: Cell<u32>,
}

/// Content of a slot, valid only while its occupancy bit is set: the first timer, and whether it is the only one.
#[derive(Clone, Copy)]
struct SlotContent(u32);

impl SlotContent {
    const SEVERAL: u32 = 1 << 31;

    const fn one(id: u32) -> Self {
        Self(id)
    }

    const fn several(first: u32) -> Self {
        Self(first | Self::SEVERAL)
    }

    #[inline]
    const fn is_one(self) -> bool {
        self.0 & Self::SEVERAL == 0
    }

    #[inline]
    const fn first(self) -> u32 {
        self.0 & !Self::SEVERAL
    }
}

/// A slot that is not near: the shift of its level and its digit there, both below 64.
#[derive(Clone, Copy)]
struct FarSlot {
    shift: u32,
    digit: u32,
}

impl FarSlot {
    /// Index in [`Wheel::far`].
    #[inline]
    fn index(self) -> usize {
        (self.shift as usize % SHIFTS) * SLOTS + self.digit as usize % SLOTS
    }
}

/// A slot, and the word and the bit that are set while it is occupied.
struct Slot<'a> {
    held: &'a Cell<SlotContent>,
    word: &'a Cell<u64>,
    bit: usize,
}

/// A due time in the near range, and by how many ticks it is after its start.
#[derive(Clone, Copy)]
pub(crate) struct NearTime {
    due: u64,
    after: u64,
}

pub(crate) struct Wheel {
    /// Start of the near range: a multiple of [`HALF`].
    start: Cell<u64>,
    /// Words of `ticks` that are not zero: a bit each.
    words: Cell<u64>,
    /// Near slots that hold a timer: a bit each, that of `start` first.
    ticks: [Cell<u64>; NEAR / 64],
    /// Other levels that hold a timer: bit `shift` each.
    levels: Cell<u64>,
    links: Box<[Link]>,
    /// By due time, modulo their number.
    near: [Cell<SlotContent>; NEAR],
    /// By shift, the slots that hold a timer: bit `digit` each.
    occupied: [Cell<u64>; SHIFTS],
    far: Box<[Cell<SlotContent>; SHIFTS * SLOTS]>,
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
            near: [const { Cell::new(SlotContent::one(0)) }; NEAR],
            occupied: [const { Cell::new(0) }; SHIFTS],
            far: Box::new([const { Cell::new(SlotContent::one(0)) }; SHIFTS * SLOTS]),
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

    /// `due` as a near time, if it is one.
    #[inline]
    pub(crate) fn near(&self, due: u64) -> Option<NearTime> {
        let after = due.wrapping_sub(self.start.get());
        (after < NEAR as u64).then_some(NearTime { due, after })
    }

    /// Sets the timer of `id`, which must not be set, to a slot that is not occupied; `false` if it is.
    #[inline]
    pub(crate) fn push(&self, NearTime { due, after }: NearTime, id: u32) -> bool {
        let word = &self.ticks[((after / 64) & 0x3f) as usize];
        let ticks = word.get();
        let marked = ticks | 1 << (due % 64);
        if marked == ticks {
            return false;
        }
        if ticks == 0 {
            self.words.set(self.words.get() | 1 << (after / 64));
        }
        word.set(marked);
        self.near[near_index(due)].set(SlotContent::one(id));
        true
    }

    /// Sets the timer of `id`, which must not be set, to `due`, which must not be over.
    pub(crate) fn insert(&self, id: u32, due: u64) {
        let Some(near) = self.near(due) else {
            return self.insert_far(id, due);
        };
        if !self.push(near, id) {
            self.append(id, &self.near[near_index(due)]);
        }
    }

    #[inline(never)]
    fn insert_far(&self, id: u32, due: u64) {
        self.links[id as usize].due.set(due);
        let far = self.far_of(due);
        let Slot { held, word, bit } = self.far_slot(far);
        if word.get() >> bit & 1 != 0 {
            return self.append(id, held);
        }
        self.levels.set(self.levels.get() | 1 << far.shift);
        word.set(word.get() | 1 << bit);
        held.set(SlotContent::one(id));
    }

    /// Adds a timer to the end of a slot that is occupied.
    #[inline(never)]
    fn append(&self, id: u32, slot: &Cell<SlotContent>) {
        let held = slot.replace(SlotContent::several(slot.get().first()));
        let first = &self.links[held.first() as usize];
        let last = if held.is_one() {
            held.first()
        } else {
            first.prev.get()
        };
        self.links[last as usize].next.set(id);
        self.links[id as usize].prev.set(last);
        first.prev.set(id);
    }

    /// The slot of `due`, which is near: `after` so many ticks from the start.
    #[inline]
    fn near_slot(&self, due: u64, after: u64) -> Slot<'_> {
        Slot {
            held: &self.near[near_index(due)],
            word: &self.ticks[((after / 64) & 0x3f) as usize],
            bit: (due % 64) as usize,
        }
    }

    #[inline]
    fn far_slot(&self, far: FarSlot) -> Slot<'_> {
        Slot {
            held: &self.far[far.index()],
            word: &self.occupied[far.shift as usize % SHIFTS],
            bit: far.digit as usize,
        }
    }

    /// The slot of a due time that is not near.
    #[inline]
    fn far_of(&self, due: u64) -> FarSlot {
        let highest = (self.last() ^ due | 1).ilog2();
        let shift = u32::from(SHIFT_OF_BIT[highest as usize % SHIFTS]);
        FarSlot {
            shift,
            digit: (due >> shift & 0x3f) as u32,
        }
    }

    /// True only if all timers are due later than `due`; may be false for some such wheels.
    pub(crate) fn is_after(&self, due: u64) -> bool {
        if let Some(near) = self.near(due) {
            return self.is_before_all(near);
        }
        if self.words.get() != 0 {
            return false;
        }
        let FarSlot { shift, digit } = self.far_of(due);
        self.levels.get() & ((1 << shift) - 1) == 0
            && self.occupied[shift as usize % SHIFTS].get() << (63 - digit) == 0
    }

    /// [`Wheel::is_after`] a near time.
    #[inline]
    pub(crate) fn is_before_all(&self, time: NearTime) -> bool {
        time.after / 64 < u64::from(self.words.get().trailing_zeros())
    }

    /// True if no timer is set.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.get() | self.words.get() == 0
    }

    /// Takes all timers of the earliest due time: returns that time and the first id, and appends the
    /// others to `ready`. Calls `when_empty` if there are no more.
    #[inline]
    pub(crate) fn pop(&self, ready: &ReadyQueue, when_empty: impl FnOnce()) -> Option<(Time, u32)> {
        let Some(words) = NonZero::new(self.words.get()) else {
            return self.fetch(ready, when_empty);
        };
        Some(self.pop_near(words, ready, when_empty))
    }

    /// [`Wheel::pop`] among the near.
    #[inline]
    fn pop_near(
        &self,
        words: NonZero<u64>,
        ready: &ReadyQueue,
        when_empty: impl FnOnce(),
    ) -> (Time, u32) {
        let mut number = u64::from(words.trailing_zeros());
        if number >= HALF / 64 {
            self.advance();
            number -= HALF / 64;
        }
        let word = &self.ticks[(number & 0x3f) as usize];
        let ticks = word.get();
        let others = ticks & ticks.wrapping_sub(1);
        word.set(others);
        if others == 0 {
            self.words.set(self.words.get() & !(1 << number));
            if self.is_empty() {
                when_empty();
            }
        }
        // A word that is marked is not zero.
        let due = self.start.get() + number * 64 + u64::from(ticks.trailing_zeros() % 64);
        let held = self.near[near_index(due)].get();
        if !held.is_one() {
            self.push_rest(held, ready);
        }
        (Time(due), held.first())
    }

    /// Moves on to the second half of what is near.
    #[inline(never)]
    fn advance(&self) {
        let (first, second) = self.ticks.split_at(NEAR / 128);
        for (first, second) in first.iter().zip(second) {
            first.set(second.replace(0));
        }
        self.words.set(self.words.get() >> (HALF / 64));
        self.bring_near();
    }

    /// Lets what is near start [`HALF`] later, and brings near what is due at its end.
    fn bring_near(&self) {
        let last = self.last();
        let far = self.far_of(last.wrapping_add(HALF));
        self.start.set(last);
        if self.levels.get() != 0
            && self.occupied[far.shift as usize % SHIFTS].get() >> far.digit & 1 != 0
        {
            let held = self.far[far.index()].get();
            self.vacate(far);
            self.deal_out(held);
        }
    }

    /// [`Wheel::pop`] where nothing is near: takes the next timer if it is alone in its slot, or else
    /// brings near what is.
    #[inline(never)]
    fn fetch(&self, ready: &ReadyQueue, when_empty: impl FnOnce()) -> Option<(Time, u32)> {
        loop {
            if let Some(words) = NonZero::new(self.words.get()) {
                return Some(self.pop_near(words, ready, when_empty));
            }
            let shift = NonZero::new(self.levels.get())?.trailing_zeros();
            let digit = self.occupied[shift as usize % SHIFTS]
                .get()
                .trailing_zeros();
            let far = FarSlot { shift, digit };
            let held = self.far[far.index()].get();
            self.vacate(far);
            let due = self.links[held.first() as usize].due.get();
            if held.is_one() {
                self.start.set((due & !(HALF - 1)).wrapping_sub(HALF));
                self.bring_near();
                if self.is_empty() {
                    when_empty();
                }
                return Some((Time(due), held.first()));
            }
            self.start.set((due >> shift << shift).wrapping_sub(HALF));
            self.deal_out(held);
        }
    }

    /// Marks a slot empty that is not near.
    #[inline]
    fn vacate(&self, FarSlot { shift, digit }: FarSlot) {
        let occupied = &self.occupied[shift as usize % SHIFTS];
        occupied.set(occupied.get() & !(1 << digit));
        if occupied.get() == 0 {
            self.levels.set(self.levels.get() & !(1 << shift));
        }
    }

    /// Puts the timers of a slot that has been vacated onto lower levels, in order.
    fn deal_out(&self, held: SlotContent) {
        let last = self.last_of(held);
        let mut id = held.first();
        loop {
            let link = &self.links[id as usize];
            let (due, next) = (link.due.get(), link.next.get());
            self.insert(id, due);
            if id == last {
                return;
            }
            id = next;
        }
    }

    fn last_of(&self, held: SlotContent) -> u32 {
        if held.is_one() {
            held.first()
        } else {
            self.links[held.first() as usize].prev.get()
        }
    }

    /// Appends all but the first timer of a slot to `ready`.
    #[inline(never)]
    fn push_rest(&self, held: SlotContent, ready: &ReadyQueue) {
        let last = self.last_of(held);
        let mut id = held.first();
        while id != last {
            id = self.links[id as usize].next.get();
            ready.push(id);
        }
    }

    /// Clears the timer of `id`, which must be set to `due`. `true`: it was.
    pub(crate) fn remove(&self, id: u32, due: u64) -> bool {
        let after = due.wrapping_sub(self.start.get());
        let is_near = after < NEAR as u64;
        let slot = if is_near {
            self.near_slot(due, after)
        } else {
            self.far_slot(self.far_of(due))
        };
        let held = slot.held.get();
        if !held.is_one() {
            slot.held.set(self.unlink(id, held));
        } else if is_near {
            self.clear_near(slot, after);
        } else {
            self.vacate(self.far_of(due));
        }
        true
    }

    /// Takes `id` out of a slot that holds several, and returns what it holds then.
    fn unlink(&self, id: u32, held: SlotContent) -> SlotContent {
        let (first, last) = (held.first(), self.last_of(held));
        let link = &self.links[id as usize];
        let (prev, next) = (link.prev.get(), link.next.get());
        let (first, last) = match (id == first, id == last) {
            (true, _) => (next, last),
            (_, true) => (first, prev),
            _ => {
                self.links[prev as usize].next.set(next);
                self.links[next as usize].prev.set(prev);
                (first, last)
            }
        };
        self.links[first as usize].prev.set(last);
        if first == last {
            SlotContent::one(first)
        } else {
            SlotContent::several(first)
        }
    }

    /// Marks a near slot empty.
    fn clear_near(&self, Slot { word, bit, .. }: Slot<'_>, after: u64) {
        word.set(word.get() & !(1 << bit));
        if word.get() == 0 {
            self.words.set(self.words.get() & !(1 << (after / 64)));
        }
    }
}

/// The place of a near due time in [`Wheel::near`].
#[inline]
fn near_index(due: u64) -> usize {
    const { assert!(NEAR == 0x1000) };
    (due & 0xfff) as usize
}
