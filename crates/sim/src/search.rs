//! Safety by search: a CPU that gets and clears entries against a CPU that reads and writes through them, in every
//! order that their steps can have.
//!
//! A step is one access to memory that the other CPU can come before or after: a load of an entry, a compare and
//! exchange, a page walk's setting of A and D, a store to the page, the loss of a TLB entry. What is stored and how is
//! done by the very functions that the simulated Xen and its CPUs are made of.
//!
//! Not explored: reordering by store buffers. Every store here is a locked operation, or to an entry that only the
//! storing CPU and page walks change, and walks are locked operations themselves (Intel SDM volume 3A, 8.1.2.1).

mod clearing;
mod events;
mod explore;
mod race;
mod touching;

use pagetoll_bill::route::{RouteMechanism, Unmap};
use pagetoll_models::x86::Flags;

pub use events::{Enabling, ExploredEvents, search_events};

/// The result over all orders of one mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// The mechanism.
    pub mechanism: Unmap,
    /// Beginnings: A and D in the entries, and what the other CPU does.
    pub beginnings: u32,
    /// Different states that were met.
    pub states: u64,
    /// Orders from beginning to end.
    pub schedules: u128,
    /// Orders at whose end a D bit is missing of a page that was written.
    pub lost_dirty: u128,
    /// Orders at whose end an A bit is missing of a page that was read or written.
    pub lost_accessed: u128,
    /// Orders in which another frame or other flags were returned, or a page was touched after its last flush.
    pub wrong: u128,
    /// The shortest order that loses a D bit, a line each step.
    pub losing: Option<Vec<String>>,
}

/// Verdict of a search on a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No order loses a bit.
    Safe,
    /// A bit is lost in some order.
    Loses,
}

impl Explored {
    /// Returns whether the mechanism must not lose anything. The others are the negative controls of the search.
    #[must_use]
    pub fn must_be_safe(&self) -> bool {
        self.mechanism.properties().smp_safe
    }

    /// Verdict on the mechanism.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        if self.lost_dirty == 0 && self.lost_accessed == 0 && self.wrong == 0 {
            Verdict::Safe
        } else {
            Verdict::Loses
        }
    }
}

/// Explores every mechanism that can be searched, in the order of the table.
pub fn search_all() -> impl Iterator<Item = Explored> {
    Unmap::ALL.iter().filter_map(|mechanism| search(*mechanism))
}

/// Explores all orders of a mechanism, over one entry and over two at once. `None`: its steps are not modelled.
#[must_use]
pub fn search(mechanism: Unmap) -> Option<Explored> {
    let program = clearing::program(mechanism)?;
    let mut explored = Explored {
        mechanism,
        beginnings: 0,
        states: 0,
        schedules: 0,
        lost_dirty: 0,
        lost_accessed: 0,
        wrong: 0,
        losing: None,
    };
    for script in touching::SCRIPTS {
        for flags in CLASSES {
            let found = explore::explore(race::Race::new(program.clone(), script, flags));
            explored.add(found);
        }
    }
    Some(explored)
}

/// The four classes of entries.
const CLASSES: [Flags; 4] = [
    Flags::empty(),
    Flags::ACCESSED,
    Flags::DIRTY,
    Flags::ACCESSED.union(Flags::DIRTY),
];

impl Explored {
    fn add(&mut self, found: explore::RaceResult) {
        self.beginnings += 1;
        self.states += found.states;
        self.schedules += found.schedules;
        self.lost_dirty += found.lost_dirty;
        self.lost_accessed += found.lost_accessed;
        self.wrong += found.wrong;
        let shorter =
            |new: &Vec<String>| self.losing.as_ref().is_none_or(|old| new.len() < old.len());
        if let Some(losing) = found.losing.filter(shorter) {
            self.losing = Some(losing);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn safe_mechanisms_lose_nothing_in_any_order() {
        for explored in search_all().filter(Explored::must_be_safe) {
            assert_eq!(explored.verdict(), Verdict::Safe, "{explored:?}");
            assert!(explored.schedules > 1000, "{explored:?}");
            assert_eq!(explored.losing, None);
        }
    }

    #[test]
    fn without_a_flush_a_page_is_touched_that_was_given_away() {
        let script = touching::SCRIPTS[3];
        let program = clearing::program(Unmap::PreserveAd).unwrap();
        let race = || race::Race::new(program.clone(), script, Flags::empty());
        assert_eq!(explore::explore(race()).wrong, 0);
        assert!(explore::explore(race().without_flush()).wrong > 0);
    }

    #[test]
    fn the_others_lose_a_d_bit_and_the_order_is_reported() {
        for explored in search_all().filter(|explored| !explored.must_be_safe()) {
            assert!(
                explored.lost_dirty > 0 && explored.lost_dirty < explored.schedules,
                "{explored:?}"
            );
            let losing = explored.losing.unwrap();
            let at = |part: &str| losing.iter().position(|line| line.contains(part)).unwrap();
            assert!(at("reads entry 0") < at("sets A and D"), "{losing:#?}");
            assert!(at("sets A and D") < at("stores 0"), "{losing:#?}");
        }
    }
}
