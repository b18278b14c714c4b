//! Tariff, checks and run of each kind of work.

use pagetoll_bill::{Check, System};
use pagetoll_models::linux::{self, Comparison, RouteRun, Zap};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use super::cell::{Cell, Work};
use crate::error::BillingError;
use crate::routes::price::Item;
use crate::routes::{fault, irq, switch, unmap};

/// Width of the entries of a system's kernel.
const fn width(system: System) -> Width {
    match system {
        System::XenPv32Dom0 => Width::Pae32,
        System::XenPvDom0 | System::XenPvDomU | System::Native | System::KvmGuest => Width::Bits64,
    }
}

impl Cell {
    /// Items that the work pays for.
    pub(crate) fn tariff(&self) -> Vec<Item> {
        let width = width(self.key.system);
        match self.work {
            Work::Clear(mechanism) => unmap::tariff::items(mechanism, width),
            Work::Set(mechanism) => fault::tariff::items(mechanism, width),
            Work::Switch { mechanism, .. } => switch::tariff::items(mechanism),
            Work::Unmask { mechanism, .. } => irq::tariff::items(mechanism),
        }
    }

    /// Comparisons with the known answer.
    pub(crate) fn checks(&self, checked: &Comparison) -> Vec<Check> {
        match self.work {
            Work::Clear(_) => unmap::checks(checked),
            Work::Set(_) => fault::checks(checked),
            Work::Switch { .. } => switch::checks(checked),
            Work::Unmask { .. } => irq::checks(checked),
        }
    }

    /// Runs it on a new machine.
    pub(crate) fn run(&self, items: Pages) -> Result<RouteRun, BillingError> {
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
