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

use pagetoll_backend::{Error, Stop};
use pagetoll_bill::{
    Backend, Draft, Evidence, Figures, Image, Inputs, Limits, Order, Route, Row, RowKey, Spec,
    Toll, Unit,
};
use pagetoll_cost::{CostKey, CostTable, Prices};
use pagetoll_units::Pages;

use self::demand::Calibrations;
use crate::costs;
use crate::error::{BillingError, RequestError};

/// Samples of the cost table, when the order does not say.
pub const DEFAULT_SAMPLES: u32 = 200;

/// The most samples of a cost table.
pub const MOST_SAMPLES: u32 = 100_000;

/// Model of a route.
pub(crate) struct Model {
    /// Cost table that comes closest to evidence.
    pub(crate) costs: &'static str,
    pub(crate) request: fn(&Spec) -> Result<Box<dyn Request>, RequestError>,
    /// Figures of a cost table from the rows of a Xen PV guest; `None` where a row is missing, or no row gives any.
    pub(crate) figures: derived::Figures,
}

/// Model of a route, or the reason why it has none.
pub(crate) const fn model(route: Route) -> Result<&'static Model, &'static str> {
    match route {
        Route::Unmap => Ok(&unmap::MODEL),
        Route::Fault => Ok(&fault::MODEL),
        Route::Switch => Ok(&switch::MODEL),
        Route::Irq => Ok(&irq::MODEL),
        Route::Flush => Ok(&flush::MODEL),
        Route::Pin => Ok(&pin::MODEL),
        Route::Demand => Ok(&demand::MODEL),
        Route::Restore => Err("guests are restored by real kernels alone"),
        Route::Dirty => Err("written pages are tracked by real kernels alone"),
        Route::Discard => Err("memory is discarded by real kernels alone"),
        Route::Migrate => Err("guests are migrated on this host alone"),
        Route::Count => Err("programs are counted in the lab alone"),
    }
}

/// Cost table that an order of a route is billed with unless it names one; that of `demand` where there is no model.
#[must_use]
pub fn default_costs(route: Route) -> &'static str {
    model(route).unwrap_or(&demand::MODEL).costs
}

/// The request that an order makes.
pub(crate) fn request(spec: &Spec) -> Result<Box<dyn Request>, Error> {
    let model =
        model(spec.route).map_err(|reason| Error::bad_input(format!("--on sim: {reason}")))?;
    Ok((model.request)(spec)?)
}

/// A seeded sequence of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
            return Err(RequestError::Samples {
                given: count,
                most: MOST_SAMPLES,
            });
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

/// A row, and its tolls on each sample of the cost table, in their order.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) row: Row,
    /// Empty for a row without figures.
    pub(crate) samples: Vec<Vec<Toll>>,
}

impl Sampled {
    /// A row of the sample in the middle.
    pub(crate) fn new(key: RowKey, pages: Pages, samples: Vec<Vec<Toll>>) -> Self {
        let row = Row::new(key, pages, Figures::of_samples(samples.clone()));
        Self { row, samples }
    }
}

/// Rows of a request, and notes on them.
#[derive(Debug, Default)]
pub(crate) struct Modelled {
    pub(crate) rows: Vec<Sampled>,
    pub(crate) notes: Vec<String>,
}

/// A request of a route, ready to be run.
pub(crate) trait Request: Send + Sync {
    fn ordered(&mut self) -> &mut Ordered;

    /// Runs it.
    ///
    /// # Errors
    /// The table lacks a figure; a stop; as the route says.
    fn run(&self, stop: &Stop) -> Result<Modelled, BillingError>;

    /// Runs the rows that were ordered for their samples alone: they may lack checks that take runs of their own.
    ///
    /// # Errors
    /// Errors of [`Request::run`].
    fn sampled(&self, _: &Calibrations, stop: &Stop) -> Result<Vec<Sampled>, BillingError> {
        Ok(self.run(stop)?.rows)
    }

    /// Bills it.
    ///
    /// # Errors
    /// Errors of [`Request::run`].
    fn bill(&mut self, stop: &Stop) -> Result<Draft, BillingError> {
        let modelled = self.run(stop);
        let ordered = self.ordered();
        let Modelled { rows, notes } =
            modelled.map_err(|error| error.of_table(&ordered.costs.file))?;
        let rows = rows.into_iter().map(|one| one.row).collect();
        Ok(ordered.draft(rows, notes))
    }
}

/// Order, cost table and samples, which all routes have.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    pub(crate) route: Route,
    pub(crate) order: Order,
    pub(crate) costs: CostTable,
    /// SHA-256 of the table's text.
    digest: String,
    pub(crate) samples: Samples,
    /// A figure that has another value than the table's, in each sample beyond those that are drawn.
    pub(crate) changes: Vec<(CostKey, f64)>,
}

impl Ordered {
    pub(crate) fn new(
        spec: &Spec,
        limits: &Limits,
        default_samples: u32,
    ) -> Result<Self, RequestError> {
        let asked = spec.sim.costs.as_deref();
        let asked = asked.unwrap_or(default_costs(spec.route));
        let (costs, digest) = costs::find_with_digest(asked)?;
        Ok(Self {
            route: spec.route,
            order: spec.order(Backend::Sim, limits)?,
            costs,
            digest,
            samples: Samples::ordered(spec, default_samples)?,
            changes: Vec::new(),
        })
    }

    /// Number of samples: those that are drawn, then those of the changes.
    pub(crate) fn count(&self) -> u32 {
        let changes = u32::try_from(self.changes.len()).unwrap_or(u32::MAX);
        self.samples.count.saturating_add(changes)
    }

    /// The prices of sample number `index`.
    pub(crate) fn prices(&self, index: u32) -> Prices<'_> {
        let change = index.checked_sub(self.samples.count);
        match change.and_then(|change| self.changes.get(change as usize)) {
            Some(&(key, value)) => self.costs.prices_with(key, value),
            None => self.samples.prices(&self.costs, index.into()),
        }
    }

    /// The seed of a run on sample number `index`; drawn samples and changes are counted from 0 each.
    pub(crate) fn seed(&self, index: u32) -> u64 {
        let change = index.checked_sub(self.samples.count);
        self.samples.seed ^ u64::from(change.unwrap_or(index))
    }

    /// Refuses a table of another unit than the time that the route's model computes.
    pub(crate) fn in_nanoseconds(self) -> Result<Self, RequestError> {
        match self.costs.unit {
            Unit::Nanoseconds => Ok(self),
            unit => Err(RequestError::Unit {
                file: self.costs.file,
                unit,
                route: self.route,
            }),
        }
    }

    /// The table, and the versions that it was counted on.
    fn stack(&self) -> BTreeMap<String, String> {
        let table = ("costs".to_owned(), self.costs.name.clone());
        let stack = self.costs.stack.iter();
        let counted = stack.map(|(part, version)| (format!("costs-{part}"), version.clone()));
        counted.chain([table]).collect()
    }

    pub(crate) fn draft(&self, rows: Vec<Row>, notes: Vec<String>) -> Draft {
        Draft {
            backend: Backend::Sim,
            route: self.route,
            unit: self.costs.unit,
            evidence: Evidence::Modelled,
            stack: self.stack(),
            order: self.order.clone(),
            rows,
            notes,
            inputs: Inputs {
                images: vec![Image {
                    name: "cost table".to_owned(),
                    sha256: self.digest.clone(),
                }],
                ..Inputs::default()
            },
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
