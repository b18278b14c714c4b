//! The unmap route: entries of the page table are read and cleared.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Check, Operation, Order, System};
use pagetoll_models::linux::{Comparison, GetAndClear};

use super::counted::cell::{self, Cell, Step, Work};

/// The cells of an order on a system.
pub(crate) fn cells(order: &Order, system: System) -> Vec<Cell> {
    let clear = Step {
        operation: Operation::Clear,
        work: Work::Clear,
    };
    cell::cells(&[clear], order, system)
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Unmap) -> GetAndClear {
    match mechanism {
        Unmap::Emulate => GetAndClear::Emulate,
        Unmap::SetPte => GetAndClear::SetPte,
        Unmap::UpdateVa => GetAndClear::UpdateVa,
        Unmap::Lazy => GetAndClear::Lazy,
        Unmap::MmuUpdate => GetAndClear::MmuUpdate,
        Unmap::PreserveAd => GetAndClear::PreserveAd,
        Unmap::Xchg => GetAndClear::Xchg,
        Unmap::XchgAndStore => GetAndClear::XchgAndStore,
        Unmap::Cmpxchg8b => GetAndClear::Cmpxchg8b,
    }
}

/// Checks of pages and entries, under the lab's names.
pub(crate) fn checks(checked: &Comparison) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, checked.items, failed);
    vec![
        check("frame", checked.wrong_frame),
        check("flags", checked.wrong_flags),
        check("accessed-dirty", checked.lost_accessed + checked.lost_dirty),
        check("pte-none", checked.not_none),
        check("reference-counts", checked.wrong_counts),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pagetoll_bill::RouteMechanism;

    use super::*;

    #[test]
    fn the_models_mechanisms_are_those_of_the_table() {
        let of_table: HashSet<_> = Unmap::ALL.iter().map(|one| model(*one)).collect();
        assert_eq!(of_table, HashSet::from(GetAndClear::ALL));
    }
}
