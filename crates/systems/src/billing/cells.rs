//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::num::NonZeroU64;

use pagetoll_bill::{Backend, Mechanism, Order, Route};
use pagetoll_units::Pages;

use super::BillingError;
use crate::linux::{self, GetAndClear, Irq, TLS_ENTRIES, Walked, Zap};

/// An operation by a mechanism at a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) operation: Operation,
    pub(super) mechanism: &'static Mechanism,
    pub(super) batch: u32,
}

/// What is done, under the lab's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Entries are got and cleared.
    Clear,
    /// Entries are set.
    Set,
    /// A context switch between tasks that differ in so many TLS descriptors.
    Switch(usize),
    /// Events are enabled while none is pending.
    EnableIdle,
    /// Events are enabled while one is pending.
    EnablePending,
}

impl Operation {
    const CLEAR: &[Self] = &[Self::Clear];
    const SET: &[Self] = &[Self::Set];
    const SWITCHES: &[Self] = &[Self::Switch(0), Self::Switch(1), Self::Switch(TLS_ENTRIES)];
    const ENABLES: &[Self] = &[Self::EnableIdle, Self::EnablePending];

    /// What is done on a route.
    fn of(route: Route) -> &'static [Self] {
        match route {
            Route::Unmap => Self::CLEAR,
            Route::Fault => Self::SET,
            Route::Switch => Self::SWITCHES,
            Route::Irq => Self::ENABLES,
            Route::Flush | Route::Pin | Route::Demand => &[],
        }
    }

    /// Its name in bills.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Set => "set",
            Self::Switch(0) => "none-changed",
            Self::Switch(1) => "one-changed",
            Self::Switch(_) => "all-changed",
            Self::EnableIdle => "none-pending",
            Self::EnablePending => "one-pending",
        }
    }
}

/// All cells, in the order in which they are read.
pub(super) fn cells(route: Route, order: &Order) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &operation in Operation::of(route) {
        let names = order.mechanisms.iter();
        for mechanism in names.filter_map(|name| route.mechanism_on(Backend::Sim, name).ok()) {
            let batches = if mechanism.batched {
                order.batches.as_slice()
            } else {
                &[1]
            };
            cells.extend(batches.iter().map(|&batch| Cell {
                operation,
                mechanism,
                batch,
            }));
        }
    }
    cells
}

impl Cell {
    /// Travels it on a new machine.
    pub(super) fn travel(self, items: Pages) -> Result<Walked, BillingError> {
        let name = self.mechanism.name;
        Ok(match self.operation {
            Operation::Clear => linux::unmap(items, self.zap(name.parse()?))?,
            Operation::Set => linux::fault(items, name.parse()?)?,
            Operation::Switch(changed) => linux::switch(items.get(), name.parse()?, changed)?,
            Operation::EnableIdle => linux::irq(items.get(), irq(name, None)?)?,
            Operation::EnablePending => linux::irq(items.get(), irq(name, Some(NonZeroU64::MIN))?)?,
        })
    }

    fn zap(self, mechanism: GetAndClear) -> Zap {
        Zap {
            mechanism,
            batch: self.batch,
        }
    }
}

fn irq(name: &str, pending_every: Option<NonZeroU64>) -> Result<Irq, BillingError> {
    Ok(Irq {
        mechanism: name.parse()?,
        pending_every,
    })
}
