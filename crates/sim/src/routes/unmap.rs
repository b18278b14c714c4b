//! The unmap route: entries of the page table are read and cleared.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Check, Operation};
use pagetoll_models::linux::{self, Comparison, GetAndClear, RouteRun, Zap};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use super::Model;
use super::counted::cell::{Step, Work};
use super::counted::request;
use super::price::Item;
use crate::error::BillingError;

pub(super) const MODEL: Model = Model {
    costs: "lab-xen-4.17",
    request: |spec| request(spec, &[CLEAR]),
    figures: |rows| rows.by_width(calibrate::figures, calibrate::pae_figures),
};

const CLEAR: Step<Unmap> = Step {
    operation: Operation::Clear,
    work: |mechanism| Box::new(mechanism),
};

impl Work for Unmap {
    fn tariff(&self, width: Width) -> Vec<Item> {
        tariff::items(*self, width)
    }

    fn checks(&self, checked: &Comparison) -> Vec<Check> {
        let check = |name, failed| Check::against_known(name, checked.items, failed);
        vec![
            check("frame", checked.wrong_frame),
            check("flags", checked.wrong_flags),
            check("accessed-dirty", checked.lost_accessed + checked.lost_dirty),
            check("pte-none", checked.not_none),
            check("reference-counts", checked.wrong_counts),
        ]
    }

    fn run(&self, items: Pages, batch: u32, width: Width) -> Result<RouteRun, BillingError> {
        let mechanism = model(*self);
        Ok(linux::unmap(items, Zap { mechanism, batch }, width)?)
    }
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Unmap) -> GetAndClear {
    match mechanism {
        Unmap::Emulate => GetAndClear::Emulate,
        Unmap::SetPte => GetAndClear::SetPte,
        Unmap::UpdateVa => GetAndClear::UpdateVa,
        Unmap::Lazy => GetAndClear::Lazy,
        Unmap::MmuUpdate => GetAndClear::MmuUpdate,
        Unmap::PreserveAd => GetAndClear::PreserveAd,
        Unmap::Xchg => GetAndClear::Xchg,
        Unmap::XchgAndStore => GetAndClear::XchgAndStore,
        Unmap::Cmpxchg8b => GetAndClear::Cmpxchg8b,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pagetoll_bill::RouteMechanism;

    use super::*;

    #[test]
    fn the_models_mechanisms_are_those_of_the_table() {
        let of_table: HashSet<_> = Unmap::ALL.iter().map(|one| model(*one)).collect();
        assert_eq!(of_table, HashSet::from(GetAndClear::ALL));
    }
}
