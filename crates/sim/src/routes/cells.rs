//! The cells of a bill: each operation of a route by each mechanism of the order, at each batch that it takes.

use std::num::NonZeroU64;

use pagetoll_bill::{Backend, Check, Mechanism, Order, Route, System, UnknownMechanism};
use pagetoll_units::Pages;

use super::price::Item;
use super::{BillingError, fault, irq, switch, unmap};
use pagetoll_models::linux::{
    self, Checked, EnableEvents, GetAndClear, Irq, LoadTls, SetPte, TLS_ENTRIES, Walked, Zap,
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

/// What is done, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Entries are got and cleared.
    Clear(GetAndClear),
    /// Entries are set.
    Set(SetPte),
    /// A context switch between tasks that differ in so many TLS descriptors.
    Switch(LoadTls, usize),
    /// Events are unmasked while none is pending.
    EnableIdle(EnableEvents),
    /// Events are unmasked while one is pending.
    EnablePending(EnableEvents),
}

/// The operation of a route that a mechanism's name gives.
type Named = fn(&str) -> Result<Operation, UnknownMechanism>;

impl Operation {
    const SWITCHES: [Named; 3] = [
        |name| Ok(Self::Switch(load(name)?, 0)),
        |name| Ok(Self::Switch(load(name)?, 1)),
        |name| Ok(Self::Switch(load(name)?, TLS_ENTRIES)),
    ];
    const ENABLES: [Named; 2] = [
        |name| Ok(Self::EnableIdle(enable(name)?)),
        |name| Ok(Self::EnablePending(enable(name)?)),
    ];

    /// What is done on a route, in the order of its rows.
    fn of(route: Route) -> &'static [Named] {
        match route {
            Route::Unmap => &[|name| Ok(Self::Clear(clear(name)?))],
            Route::Fault => &[|name| Ok(Self::Set(set(name)?))],
            Route::Switch => &Self::SWITCHES,
            Route::Irq => &Self::ENABLES,
            Route::Flush | Route::Pin | Route::Demand => &[],
        }
    }

    /// The lab's name for what is done.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clear(_) => "clear",
            Self::Set(_) => "set",
            Self::Switch(_, 0) => "none-changed",
            Self::Switch(_, 1) => "one-changed",
            Self::Switch(..) => "all-changed",
            Self::EnableIdle(_) => "none-pending",
            Self::EnablePending(_) => "one-pending",
        }
    }

    /// What it pays for in a guest of `width`.
    pub(crate) fn tariff(self, width: Width) -> Vec<Item> {
        match self {
            Self::Clear(mechanism) => unmap::tariff::of(mechanism, width),
            Self::Set(mechanism) => fault::tariff::of(mechanism, width),
            Self::Switch(mechanism, _) => switch::tariff::of(mechanism),
            Self::EnableIdle(mechanism) | Self::EnablePending(mechanism) => {
                irq::tariff::of(mechanism)
            }
        }
    }

    /// What was compared with what is known to be right.
    pub(crate) fn checks(self, checked: &Checked) -> Vec<Check> {
        match self {
            Self::Clear(_) => unmap::checks(checked),
            Self::Set(_) => fault::checks(checked),
            Self::Switch(..) => switch::checks(checked),
            Self::EnableIdle(_) | Self::EnablePending(_) => irq::checks(checked),
        }
    }
}

fn clear(name: &str) -> Result<GetAndClear, UnknownMechanism> {
    named(&GetAndClear::ALL, GetAndClear::name, Route::Unmap, name)
}

fn set(name: &str) -> Result<SetPte, UnknownMechanism> {
    named(&SetPte::ALL, SetPte::name, Route::Fault, name)
}

fn load(name: &str) -> Result<LoadTls, UnknownMechanism> {
    named(&LoadTls::ALL, LoadTls::name, Route::Switch, name)
}

fn enable(name: &str) -> Result<EnableEvents, UnknownMechanism> {
    named(&EnableEvents::ALL, EnableEvents::name, Route::Irq, name)
}

/// All cells, in the order in which they are read.
///
/// # Errors
/// The models have no such mechanism.
pub(crate) fn cells(route: Route, order: &Order) -> Result<Vec<Cell>, UnknownMechanism> {
    let of_system = |system| cells_on(system, route, order);
    let systems = SYSTEMS.into_iter().map(of_system);
    Ok(systems.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The guests of the simulated Xen.
const SYSTEMS: [System; 2] = [System::XenPvDom0, System::XenPv32Dom0];

fn cells_on(system: System, route: Route, order: &Order) -> Result<Vec<Cell>, UnknownMechanism> {
    let mut cells = Vec::new();
    for operation_by in Operation::of(route) {
        for mechanism in order.mechanisms_on(route, system) {
            let operation = operation_by(mechanism.name)?;
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
    Ok(cells)
}

/// What kind of guest a system's kernel is.
pub(crate) const fn width(system: System) -> Width {
    match system {
        System::XenPv32Dom0 => Width::Pae32,
        System::XenPvDom0 | System::Native | System::KvmGuest => Width::Bits64,
    }
}

impl Cell {
    /// Runs it on a new machine.
    pub(crate) fn run(self, items: Pages) -> Result<Walked, BillingError> {
        let irq = |mechanism, pending_every| {
            let irq = Irq {
                mechanism,
                pending_every,
            };
            linux::irq(items.get(), irq)
        };
        let width = width(self.system);
        Ok(match self.operation {
            Operation::Clear(mechanism) => {
                let batch = self.batch;
                linux::unmap(items, Zap { mechanism, batch }, width)?
            }
            Operation::Set(mechanism) => linux::fault(items, mechanism, width)?,
            Operation::Switch(mechanism, changed) => {
                linux::switch(items.get(), mechanism, changed)?
            }
            Operation::EnableIdle(mechanism) => irq(mechanism, None)?,
            Operation::EnablePending(mechanism) => irq(mechanism, Some(NonZeroU64::MIN))?,
        })
    }
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
