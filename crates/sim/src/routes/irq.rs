//! The irq route: event channels are unmasked.

pub(crate) mod calibrate;
pub(crate) mod tariff;

use std::num::NonZeroU64;

use pagetoll_bill::route::Irq;
use pagetoll_bill::{Check, Operation};
use pagetoll_models::linux::{self, Comparison, EnableEvents, RouteRun};
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

const STEPS: [Step<Irq>; 2] = [
    Step {
        operation: Operation::NonePending,
        work: |mechanism| {
            Box::new(Unmask {
                mechanism,
                pending_every: None,
            })
        },
    },
    Step {
        operation: Operation::OnePending,
        work: |mechanism| {
            Box::new(Unmask {
                mechanism,
                pending_every: Some(NonZeroU64::MIN),
            })
        },
    },
];

/// Events are unmasked.
#[derive(Debug)]
struct Unmask {
    mechanism: Irq,
    /// Number of unmasks from one with a pending event to the next; `None`: no event is pending.
    pending_every: Option<NonZeroU64>,
}

impl Work for Unmask {
    fn tariff(&self, _: Width) -> Vec<Item> {
        tariff::items(self.mechanism)
    }

    fn checks(&self, checked: &Comparison) -> Vec<Check> {
        let (items, failed) = (checked.items, checked.lost_events);
        vec![Check::against_known("delivered-at-once", items, failed)]
    }

    fn run(&self, items: Pages, _: u32, _: Width) -> Result<RouteRun, BillingError> {
        let unmasking = linux::Irq {
            mechanism: model(self.mechanism),
            pending_every: self.pending_every,
        };
        Ok(linux::irq(items.get(), unmasking)?)
    }
}

/// The model of a mechanism.
pub(crate) const fn model(mechanism: Irq) -> EnableEvents {
    match mechanism {
        Irq::Always => EnableEvents::Always,
        Irq::IfPending => EnableEvents::IfPending,
    }
}
