//! Sets of cores, a bit for each.

use std::cell::Cell;

use crate::ids::CoreId;

/// A set of cores below a number that is given when it is made.
pub(crate) struct CoreSet(Box<[Cell<u64>]>);

impl CoreSet {
    /// An empty set that has room for so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        Self(vec![Cell::new(0); cores.div_ceil(64)].into())
    }

    /// Cores of 64 each, the lowest in the lowest bit.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + Clone {
        self.0.iter().map(Cell::get)
    }

    #[inline]
    fn place(&self, core: CoreId) -> (&Cell<u64>, u64) {
        (&self.0[core.index() / 64], 1 << (core.0 % 64))
    }

    #[inline]
    pub(crate) fn has(&self, core: CoreId) -> bool {
        let (word, bit) = self.place(core);
        word.get() & bit != 0
    }

    #[inline]
    pub(crate) fn add(&self, core: CoreId) {
        let (word, bit) = self.place(core);
        word.set(word.get() | bit);
    }

    #[inline]
    pub(crate) fn remove(&self, core: CoreId) {
        let (word, bit) = self.place(core);
        word.set(word.get() & !bit);
    }

    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|word| word.set(0));
    }
}
