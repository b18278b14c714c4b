//! The switch route: TLS descriptors are loaded at context switches.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use pagetoll_bill::route::Switch;
use pagetoll_bill::{Check, Operation};
use pagetoll_models::linux::{self, Comparison, LoadTls, RouteRun, TLS_ENTRIES};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use super::Model;
use super::counted::cell::{Step, Work};
use super::counted::request;
use super::price::Item;
use crate::error::BillingError;

pub(super) const MODEL: Model = Model {
    costs: "lab-xen-4.17",
    request: |spec| request(spec, &STEPS),
    figures: calibrate::figures,
};

const STEPS: [Step<Switch>; 3] = [
    Step {
        operation: Operation::NoneChanged,
        work: |mechanism| Box::new(Load::<0>(mechanism)),
    },
    Step {
        operation: Operation::OneChanged,
        work: |mechanism| Box::new(Load::<1>(mechanism)),
    },
    Step {
        operation: Operation::AllChanged,
        work: |mechanism| Box::new(Load::<TLS_ENTRIES>(mechanism)),
    },
];

/// A context switch between tasks that differ in `CHANGED` TLS descriptors.
#[derive(Debug)]
struct Load<const CHANGED: usize>(Switch);

impl<const CHANGED: usize> Work for Load<CHANGED> {
    fn tariff(&self, _: Width) -> Vec<Item> {
        tariff::items(self.0)
    }

    fn checks(&self, checked: &Comparison) -> Vec<Check> {
        let (items, failed) = (checked.items, checked.wrong_value);
        vec![Check::against_known("descriptors-loaded", items, failed)]
    }

    fn run(&self, items: Pages, _: u32, _: Width) -> Result<RouteRun, BillingError> {
        Ok(linux::switch(items.get(), model(self.0), CHANGED)?)
    }
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Switch) -> LoadTls {
    match mechanism {
        Switch::Always => LoadTls::Always,
        Switch::IfChanged => LoadTls::IfChanged,
    }
}
