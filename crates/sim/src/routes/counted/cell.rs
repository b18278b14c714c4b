//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::fmt::Debug;

use pagetoll_bill::{Check, Operation, Order, RouteMechanism, RowKey, System};
use pagetoll_models::linux::{Comparison, RouteRun};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use crate::error::BillingError;
use crate::routes::price::Item;

/// A row before it is run.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) key: RowKey,
    pub(super) work: Box<dyn Work>,
}

/// Operation on the guest's pages, descriptors or events by a mechanism.
pub(crate) trait Work: Debug + Send + Sync {
    /// Items that it pays for.
    fn tariff(&self, width: Width) -> Vec<Item>;

    /// Comparisons with the known answer, under the lab's names.
    fn checks(&self, checked: &Comparison) -> Vec<Check>;

    /// Runs it on a new machine, `batch` of the items at a time.
    ///
    /// # Errors
    /// The machine refuses what it does.
    fn run(&self, items: Pages, batch: u32, width: Width) -> Result<RouteRun, BillingError>;
}

/// An operation of a route, and what a mechanism does for it.
pub(crate) struct Step<M> {
    pub(crate) operation: Operation,
    pub(crate) work: fn(M) -> Box<dyn Work>,
}

/// Width of the entries of a system's kernel.
pub(crate) const fn width(system: System) -> Width {
    match system {
        System::XenPv32Dom0 => Width::Pae32,
        System::XenPvDom0 | System::XenPvDomU | System::Native | System::KvmGuest => Width::Bits64,
    }
}

impl Cell {
    pub(super) fn tariff(&self) -> Vec<Item> {
        self.work.tariff(width(self.key.system))
    }

    pub(super) fn run(&self, items: Pages) -> Result<RouteRun, BillingError> {
        let width = width(self.key.system);
        self.work.run(items, self.key.batch, width)
    }
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
