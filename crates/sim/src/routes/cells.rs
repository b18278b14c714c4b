//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::num::NonZeroU64;

use pagetoll_bill::{Backend, Mechanism, Order, Route, System, UnknownMechanism};
use pagetoll_units::Pages;

use super::BillingError;
use pagetoll_models::linux::{
    self, EnableEvents, GetAndClear, Irq, LoadTls, SetPte, TLS_ENTRIES, Walked, Zap,
};
use pagetoll_models::xen::Width;

/// An operation by a mechanism at a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) operation: Operation,
    pub(crate) system: System,
    pub(crate) mechanism: &'static Mechanism,
    pub(crate) batch: u32,
}

/// What is done, under the lab's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
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
    pub(crate) const fn name(self) -> &'static str {
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
pub(crate) fn cells(route: Route, order: &Order) -> Vec<Cell> {
    let of_system = |&system: &System| cells_on(system, route, order);
    SYSTEMS.iter().flat_map(of_system).collect()
}

/// The guests of the simulated Xen.
const SYSTEMS: [System; 2] = [System::XenPvDom0, System::XenPv32Dom0];

fn cells_on(system: System, route: Route, order: &Order) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &operation in Operation::of(route) {
        for mechanism in order.mechanisms_on(route, system) {
            let batches = if mechanism.batched {
                order.batches.as_slice()
            } else {
                &[1]
            };
            cells.extend(batches.iter().map(|&batch| Cell {
                operation,
                system,
                mechanism,
                batch,
            }));
        }
    }
    cells
}

/// What kind of guest a system's kernel is.
pub(crate) const fn width(system: System) -> Width {
    match system {
        System::XenPv32Dom0 => Width::Pae32,
        System::XenPvDom0 | System::Native | System::KvmGuest => Width::Bits64,
    }
}

impl Cell {
    /// Travels it on a new machine.
    pub(crate) fn travel(self, items: Pages) -> Result<Walked, BillingError> {
        let name = self.mechanism.name;
        Ok(match self.operation {
            Operation::Clear => linux::unmap(
                items,
                self.zap(named(
                    &GetAndClear::ALL,
                    GetAndClear::name,
                    Route::Unmap,
                    name,
                )?),
                width(self.system),
            )?,
            Operation::Set => linux::fault(
                items,
                named(&SetPte::ALL, SetPte::name, Route::Fault, name)?,
                width(self.system),
            )?,
            Operation::Switch(changed) => linux::switch(
                items.get(),
                named(&LoadTls::ALL, LoadTls::name, Route::Switch, name)?,
                changed,
            )?,
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
        mechanism: named(&EnableEvents::ALL, EnableEvents::name, Route::Irq, name)?,
        pending_every,
    })
}

/// The model of a mechanism of the order.
fn named<M: Copy>(
    all: &[M],
    name_of: fn(M) -> &'static str,
    route: Route,
    name: &str,
) -> Result<M, UnknownMechanism> {
    let mut all = all.iter().copied();
    all.find(|&mechanism| name_of(mechanism) == name)
        .ok_or_else(|| UnknownMechanism {
            route,
            backend: Some(Backend::Sim),
            name: name.to_owned(),
        })
}
