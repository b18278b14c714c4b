//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::num::NonZeroU64;

use pagetoll_bill::route::{Fault, Irq, Switch, Unmap};
use pagetoll_bill::{Check, Operation, Order, RouteMechanism, RowKey, System};
use pagetoll_models::linux::{self, Checked, Walked, Zap};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use crate::error::BillingError;
use crate::routes::price::Item;
use crate::routes::{fault, irq, switch, unmap};

/// A row before it is run.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) key: RowKey,
    work: Work,
}

/// What is done, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Entries are read and cleared.
    Clear(Unmap),
    /// Entries are set.
    Set(Fault),
    /// A context switch between tasks that differ in this many TLS descriptors.
    Switch {
        /// How descriptors are loaded.
        mechanism: Switch,
        /// How many of them differ.
        changed: usize,
    },
    /// Events are unmasked.
    Unmask {
        /// How.
        mechanism: Irq,
        /// Every how many unmasks an event is pending; `None`: never.
        pending_every: Option<NonZeroU64>,
    },
}

/// An operation of a route, and what a mechanism does for it.
pub(crate) struct Step<M> {
    pub(crate) operation: Operation,
    pub(crate) work: fn(M) -> Work,
}

/// The cells of these operations on a system, in the order in which they are read.
pub(crate) fn of<M: RouteMechanism>(steps: &[Step<M>], order: &Order, system: System) -> Vec<Cell> {
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

/// What kind of guest a system's kernel is.
const fn width(system: System) -> Width {
    match system {
        System::XenPv32Dom0 => Width::Pae32,
        System::XenPvDom0 | System::Native | System::KvmGuest => Width::Bits64,
    }
}

impl Cell {
    /// What it pays for.
    pub(crate) fn tariff(&self) -> Vec<Item> {
        let width = width(self.key.system);
        match self.work {
            Work::Clear(mechanism) => unmap::tariff::of(mechanism, width),
            Work::Set(mechanism) => fault::tariff::of(mechanism, width),
            Work::Switch { mechanism, .. } => switch::tariff::of(mechanism),
            Work::Unmask { mechanism, .. } => irq::tariff::of(mechanism),
        }
    }

    /// What was compared with what is known to be right.
    pub(crate) fn checks(&self, checked: &Checked) -> Vec<Check> {
        match self.work {
            Work::Clear(_) => unmap::checks(checked),
            Work::Set(_) => fault::checks(checked),
            Work::Switch { .. } => switch::checks(checked),
            Work::Unmask { .. } => irq::checks(checked),
        }
    }

    /// Runs it on a new machine.
    pub(crate) fn run(&self, items: Pages) -> Result<Walked, BillingError> {
        let width = width(self.key.system);
        Ok(match self.work {
            Work::Clear(mechanism) => {
                let zap = Zap {
                    mechanism: unmap::model(mechanism),
                    batch: self.key.batch,
                };
                linux::unmap(items, zap, width)?
            }
            Work::Set(mechanism) => linux::fault(items, fault::model(mechanism), width)?,
            Work::Switch { mechanism, changed } => {
                linux::switch(items.get(), switch::model(mechanism), changed)?
            }
            Work::Unmask {
                mechanism,
                pending_every,
            } => {
                let mechanism = irq::model(mechanism);
                let unmasking = linux::Irq {
                    mechanism,
                    pending_every,
                };
                linux::irq(items.get(), unmasking)?
            }
        })
    }
}
