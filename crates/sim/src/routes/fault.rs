//! The fault route: entries of the page table are set.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Fault;
use pagetoll_bill::{Check, Operation};
use pagetoll_models::linux::{self, Comparison, RouteRun, SetPte};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use super::Model;
use super::counted::cell::{Step, Work};
use super::counted::request;
use super::price::Item;
use crate::error::BillingError;

pub(super) const MODEL: Model = Model {
    costs: "lab-xen-4.17",
    request: |spec| request(spec, &[SET]),
    figures: |rows| rows.by_width(calibrate::figures, calibrate::pae_figures),
};

const SET: Step<Fault> = Step {
    operation: Operation::Set,
    work: |mechanism| Box::new(mechanism),
};

impl Work for Fault {
    fn tariff(&self, width: Width) -> Vec<Item> {
        tariff::items(*self, width)
    }

    fn checks(&self, checked: &Comparison) -> Vec<Check> {
        let check = |name, failed| Check::against_known(name, checked.items, failed);
        vec![
            check("entries-set", checked.wrong_value),
            check("reference-counts", checked.wrong_counts),
        ]
    }

    fn run(&self, items: Pages, _: u32, width: Width) -> Result<RouteRun, BillingError> {
        Ok(linux::fault(items, model(*self), width)?)
    }
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Fault) -> SetPte {
    match mechanism {
        Fault::Emulate => SetPte::Emulate,
        Fault::Emulate2x32 => SetPte::Emulate2x32,
        Fault::Hypercall => SetPte::Hypercall,
    }
}
