//! The switch route: TLS descriptors are loaded at context switches.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Switch;
use pagetoll_bill::{Check, Operation, Order, System};
use pagetoll_models::linux::{Comparison, LoadTls, TLS_ENTRIES};

use super::counted::cell::{self, Cell, Step, Work};

const STEPS: [Step<Switch>; 3] = [
    Step {
        operation: Operation::NoneChanged,
        work: |mechanism| Work::Switch {
            mechanism,
            changed: 0,
        },
    },
    Step {
        operation: Operation::OneChanged,
        work: |mechanism| Work::Switch {
            mechanism,
            changed: 1,
        },
    },
    Step {
        operation: Operation::AllChanged,
        work: |mechanism| Work::Switch {
            mechanism,
            changed: TLS_ENTRIES,
        },
    },
];

/// The cells of an order on a system.
pub(crate) fn cells(order: &Order, system: System) -> Vec<Cell> {
    cell::cells(&STEPS, order, system)
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Switch) -> LoadTls {
    match mechanism {
        Switch::Always => LoadTls::Always,
        Switch::IfChanged => LoadTls::IfChanged,
    }
}

/// Check of the descriptor table's contents, under the lab's name.
pub(crate) fn checks(checked: &Comparison) -> Vec<Check> {
    let (items, failed) = (checked.items, checked.wrong_value);
    vec![Check::against_known("descriptors-loaded", items, failed)]
}
