//! The irq route: event channels are unmasked.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use std::num::NonZeroU64;

use pagetoll_bill::route::Irq;
use pagetoll_bill::{Check, Operation, Order, System};
use pagetoll_models::linux::{Comparison, EnableEvents};

use super::counted::cell::{self, Cell, Step, Work};

const STEPS: [Step<Irq>; 2] = [
    Step {
        operation: Operation::NonePending,
        work: |mechanism| Work::Unmask {
            mechanism,
            pending_every: None,
        },
    },
    Step {
        operation: Operation::OnePending,
        work: |mechanism| Work::Unmask {
            mechanism,
            pending_every: Some(NonZeroU64::MIN),
        },
    },
];

/// The cells of an order on a system.
pub(crate) fn cells(order: &Order, system: System) -> Vec<Cell> {
    cell::cells(&STEPS, order, system)
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Irq) -> EnableEvents {
    match mechanism {
        Irq::Always => EnableEvents::Always,
        Irq::IfPending => EnableEvents::IfPending,
    }
}

/// Check of the events' delivery, under the lab's name.
pub(crate) fn checks(checked: &Comparison) -> Vec<Check> {
    let (items, failed) = (checked.items, checked.lost_events);
    vec![Check::against_known("delivered-at-once", items, failed)]
}
