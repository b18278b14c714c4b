//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::num::NonZeroU64;

use pagetoll_bill::route::{Fault, Irq, Switch, Unmap};
use pagetoll_bill::{Operation, Order, RouteMechanism, RowKey, System};

/// A row before it is run.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) key: RowKey,
    pub(super) work: Work,
}

/// Operation on the guest's pages, descriptors or events, with its mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Entries are read and cleared.
    Clear(Unmap),
    /// Entries are set.
    Set(Fault),
    /// A context switch between tasks that differ in this many TLS descriptors.
    Switch {
        /// Mechanism that loads descriptors.
        mechanism: Switch,
        /// Number of descriptors that differ.
        changed: usize,
    },
    /// Events are unmasked.
    Unmask {
        /// Mechanism that unmasks events.
        mechanism: Irq,
        /// Number of unmasks from one with a pending event to the next; `None`: no event is pending.
        pending_every: Option<NonZeroU64>,
    },
}

/// An operation of a route, and what a mechanism does for it.
pub(crate) struct Step<M> {
    pub(crate) operation: Operation,
    pub(crate) work: fn(M) -> Work,
}

/// The cells of these operations on a system, in the order in which they are read.
pub(crate) fn cells<M: RouteMechanism>(
    steps: &[Step<M>],
    order: &Order,
    system: System,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for step in steps {
        for mechanism in order.on_system::<M>(system) {
            let batches = order.batches_of(mechanism).iter();
            cells.extend(batches.map(|&batch| Cell {
                key: RowKey::new(step.operation, mechanism, system).at_batch(batch),
                work: (step.work)(mechanism),
            }));
        }
    }
    cells
}
