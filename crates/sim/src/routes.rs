//! The routes: a request made from an order, its rows, the tariff of each mechanism, and what calibrates the figures.
//!
//! A mechanism runs once, for real, on the simulated system ([`RouteRun`](pagetoll_models::linux::RouteRun): what was
//! crossed and done, counted and checked). Prices are attached afterwards, once for each sample of the cost table, so
//! that a spread costs no second run. The same order, table and seed give the same bill, byte for byte.

// A new route or mechanism does not compile here until it has an arm.
#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod counted;
pub mod demand;
pub(crate) mod derived;
pub(crate) mod fault;
pub(crate) mod flush;
pub(crate) mod irq;
pub mod pin;
pub(crate) mod price;
pub(crate) mod switch;
pub(crate) mod tariff;
pub(crate) mod unmap;
pub(crate) mod versions;

use std::collections::BTreeMap;

use pagetoll_bill::{Backend, Draft, Evidence, Inputs, Limits, Order, Route, Row, Spec};
use pagetoll_cost::{CostTable, Prices};

use crate::costs;
use crate::error::RequestError;

/// Samples of the cost table, when the order does not say.
pub const DEFAULT_SAMPLES: u32 = 200;

/// The most samples of a cost table.
pub const MOST_SAMPLES: u32 = 100_000;

/// A seeded sequence of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Number of samples; at least one.
    pub count: u32,
    /// Seed of the sequence.
    pub seed: u64,
}

impl Samples {
    fn ordered(spec: &Spec, default: u32) -> Result<Self, RequestError> {
        let count = spec.sim.samples.unwrap_or(default);
        if !(1..=MOST_SAMPLES).contains(&count) {
            return Err(RequestError::Samples { given: count });
        }
        Ok(Self {
            count,
            seed: spec.seed.unwrap_or(1),
        })
    }

    /// The prices of sample number `index`. A single sample is the table's own values.
    pub(crate) fn prices(self, costs: &CostTable, index: u64) -> Prices<'_> {
        if self.count == 1 {
            costs.prices()
        } else {
            costs.sample(self.seed, index)
        }
    }

    /// Prices of all samples, in their order.
    pub(crate) fn machines(self, costs: &CostTable) -> impl Iterator<Item = Prices<'_>> {
        (0..u64::from(self.count)).map(move |index| self.prices(costs, index))
    }
}

/// Order, cost table and samples, which all routes have.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    pub(crate) route: Route,
    pub(crate) order: Order,
    pub(crate) costs: CostTable,
    pub(crate) samples: Samples,
}

impl Ordered {
    pub(crate) fn new(
        spec: &Spec,
        limits: &Limits,
        default_samples: u32,
    ) -> Result<Self, RequestError> {
        Ok(Self {
            route: spec.route,
            order: spec.order(Backend::Sim, limits)?,
            costs: costs::find(spec.sim.costs.as_deref(), spec.route)?,
            samples: Samples::ordered(spec, default_samples)?,
        })
    }

    pub(crate) fn draft(&self, rows: Vec<Row>, notes: Vec<String>) -> Draft {
        Draft {
            backend: Backend::Sim,
            route: self.route,
            unit: self.costs.unit,
            evidence: Evidence::Modelled,
            stack: BTreeMap::from([("costs".to_owned(), self.costs.name.clone())]),
            order: self.order.clone(),
            rows,
            notes,
            inputs: Inputs::default(),
        }
    }

    /// Note on the draws from the table.
    pub(crate) fn spread(&self) -> String {
        match self.samples.count {
            1 => "costs: the cost table's values as they are".to_owned(),
            count => format!(
                "costs: the machine in the middle of {count} drawn from the cost table's spread (seed {}); in brackets \
                 where 90 % of them lie",
                self.samples.seed
            ),
        }
    }
}
