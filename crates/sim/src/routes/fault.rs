//! The fault route: entries of the page table are set.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Fault;
use pagetoll_bill::{Check, Operation, Order, System};
use pagetoll_models::linux::{Comparison, SetPte};

use super::counted::cell::{self, Cell, Step, Work};

/// The cells of an order on a system.
pub(crate) fn cells(order: &Order, system: System) -> Vec<Cell> {
    let set = Step {
        operation: Operation::Set,
        work: Work::Set,
    };
    cell::cells(&[set], order, system)
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Fault) -> SetPte {
    match mechanism {
        Fault::Emulate => SetPte::Emulate,
        Fault::Emulate2x32 => SetPte::Emulate2x32,
        Fault::Hypercall => SetPte::Hypercall,
    }
}

/// Checks of the entries' contents, under the lab's names.
pub(crate) fn checks(checked: &Comparison) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, checked.items, failed);
    vec![
        check("entries-set", checked.wrong_value),
        check("reference-counts", checked.wrong_counts),
    ]
}
