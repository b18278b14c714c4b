//! What an entry into Xen involved, counted so that costs can be attached later.

use std::ops::{AddAssign, Sub};

use super::errno::Errno;

/// Counts of what was crossed and done. All are events, none is a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolls {
    /// Hypercalls made by the guest; a multicall is one.
    pub hypercalls: u32,
    /// Calls within multicalls.
    pub subcalls: u32,
    /// Requests of `mmu_update` and `mmuext_op` arrays that were taken up.
    pub requests: u32,
    /// Page faults that reached Xen.
    pub page_faults: u32,
    /// Instructions that ptwr emulated.
    pub emulations: u32,
    /// Entries whose frame was validated anew, or released.
    pub entries_revalidated: u32,
    /// Entries that were changed in flags that need no validation.
    pub entries_fast: u32,
    /// Tables that were promoted to a type, all 512 entries read.
    pub promotions: u32,
    /// Tables that lost their type, all 512 entries read.
    pub demotions: u32,
    /// Flushes of the own CPU's whole TLB.
    pub flushes_local: u32,
    /// INVLPG on the own CPU.
    pub invlpg_local: u32,
    /// Other CPUs that a flush or INVLPG was sent to.
    pub flush_targets: u32,
}

impl AddAssign for Tolls {
    fn add_assign(&mut self, other: Self) {
        self.each_with(&other, |own, other| *own += other);
    }
}

impl Sub for Tolls {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self.each_with(&other, |own, other| *own -= other);
        self
    }
}

impl Tolls {
    fn each_with(&mut self, other: &Self, change: fn(&mut u32, u32)) {
        change(&mut self.hypercalls, other.hypercalls);
        change(&mut self.subcalls, other.subcalls);
        change(&mut self.requests, other.requests);
        change(&mut self.page_faults, other.page_faults);
        change(&mut self.emulations, other.emulations);
        change(&mut self.entries_revalidated, other.entries_revalidated);
        change(&mut self.entries_fast, other.entries_fast);
        change(&mut self.promotions, other.promotions);
        change(&mut self.demotions, other.demotions);
        change(&mut self.flushes_local, other.flushes_local);
        change(&mut self.invlpg_local, other.invlpg_local);
        change(&mut self.flush_targets, other.flush_targets);
    }
}

/// How a hypercall ended, as the guest sees it, and what it involved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// The return value: 0, or why not.
    pub result: Result<(), Errno>,
    /// Requests that were carried out, as the guest's done counter has it; for calls that have none, 0.
    pub done: u32,
    /// What it involved.
    pub tolls: Tolls,
}

impl Outcome {
    /// The number that the guest gets.
    #[must_use]
    pub const fn code(&self) -> i64 {
        match self.result {
            Ok(()) => 0,
            Err(errno) => errno.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolls_are_counted_up_and_the_difference_is_what_came() {
        let before = Tolls {
            hypercalls: 3,
            demotions: 1,
            ..Tolls::default()
        };
        let mut after = before;
        let more = Tolls {
            hypercalls: 1,
            flush_targets: 7,
            ..Tolls::default()
        };
        after += more;
        assert_eq!(after - before, more);
    }
}
