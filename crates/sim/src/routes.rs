//! The simulator as a backend: from an order and a host table to a bill.
//!
//! A mechanism is travelled once, for real, on the simulated system ([`Walked`](pagetoll_models::linux::Walked): what was crossed and
//! done, counted and checked). Prices are attached afterwards, once for each sample of the host table, so that a spread costs no
//! second run. The same order, table and seed give the same bill, byte for byte.

pub(crate) mod cells;
mod checks;
mod crossings;
pub mod demand;
pub(crate) mod flush;
pub mod pin;
pub(crate) mod price;
pub(crate) mod tariff;

use std::collections::BTreeMap;

use pagetoll_bill::cost::{Host, HostError, Prices};
use pagetoll_bill::{
    Backend, Bill, Evidence, Limits, Order, Provenance, Route, Row, Schema, UnknownMechanism,
};
use pagetoll_units::Pages;
use rayon::prelude::*;
use thiserror::Error;

use self::cells::Cell;
use crate::contention::demand::DemandError;
use crate::contention::flush_lock::FlushError;
use crate::timeline::Timeline;
use pagetoll_models::Error;

pub use crate::contention::flush_lock::WaitsWith;

/// What the simulator can take: 1 TiB of pages, the entries of one table. It has no noise to be averaged out, so one run.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 28),
    batch: 512,
    runs: 1,
};

/// Samples of the host table, when the order does not say.
pub const DEFAULT_SAMPLES: u32 = 200;

/// Why no bill came of it.
#[derive(Debug, Error)]
pub enum BillingError {
    /// The table lacks a figure that the route needs.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The order names a mechanism that the simulator does not have.
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    /// vCPUs that flush each other cannot be run, or wait for each other for ever.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// A route without virtual time.
    #[error(
        "route {0} has no timeline: what its mechanisms do is counted and priced; expected route flush"
    )]
    NoTimeline(Route),
    /// Demand paging cannot be run.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// The simulated system cannot do what was ordered.
    #[error(transparent)]
    System(#[from] Error),
}

impl BillingError {
    /// The exit code that it means: 1 for a simulation that did not come to its end, 2 for what cannot be simulated.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Flush(FlushError::Run(_)) => 1,
            Self::Demand(DemandError::Run(_)) => 1,
            Self::Host(_)
            | Self::Mechanism(_)
            | Self::NoTimeline(_)
            | Self::System(_)
            | Self::Flush(_)
            | Self::Demand(_) => 2,
        }
    }
}

/// What is to be billed, and by which prices.
#[derive(Clone, Debug)]
pub struct Request {
    /// The route.
    pub route: Route,
    /// Pages, batches, mechanisms.
    pub order: Order,
    /// What things cost.
    pub host: Host,
    /// How often the table is sampled.
    pub samples: Samples,
    /// How `flush_lock` is waited for.
    pub waits: WaitsWith,
    /// The command line, for the bill's provenance.
    pub command: String,
}

/// A seeded sequence of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// How many; at least one.
    pub count: u32,
    /// Where the sequence begins.
    pub seed: u64,
}

impl Samples {
    /// The prices of sample number `index`. A single sample is the table's own values.
    pub(crate) fn prices(self, host: &Host, index: u64) -> Prices<'_> {
        if self.count == 1 {
            host.prices()
        } else {
            host.sample(self.seed, index)
        }
    }

    /// All of them, in their order.
    pub(crate) fn machines(self, host: &Host) -> impl Iterator<Item = Prices<'_>> {
        (0..u64::from(self.count)).map(move |index| self.prices(host, index))
    }
}

/// Bills the route.
///
/// # Errors
/// [`BillingError::Host`] before anything is simulated when the table lacks a figure; a deadlock of the simulated CPUs.
pub fn bill(request: &Request) -> Result<Bill, BillingError> {
    let (rows, profiles) = match request.route {
        Route::Flush => flush::rows(request)?,
        _ => (rows(request)?, Vec::new()),
    };
    Ok(Bill {
        schema: Schema::V1,
        route: request.route,
        backend: Backend::Sim,
        backend_reason: String::new(),
        unit: request.host.unit,
        evidence: Evidence::Modelled,
        stack: BTreeMap::from([("host".to_owned(), request.host.name.clone())]),
        rows,
        order: request.order.clone(),
        notes: notes(request).into_iter().chain(profiles).collect(),
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    })
}

/// Who paid what, and when: one run of a mechanism with the table's own values.
///
/// # Errors
///
/// As [`bill`]; [`BillingError::NoTimeline`] for a route whose mechanisms are counted, and not run in virtual time.
pub fn timeline(request: &Request, mechanism: &str) -> Result<Timeline, BillingError> {
    match request.route {
        Route::Flush => flush::timeline(request, mechanism),
        other => Err(BillingError::NoTimeline(other)),
    }
}

fn rows(request: &Request) -> Result<Vec<Row>, BillingError> {
    let cells = cells::cells(request.route, &request.order);
    let rows = cells.into_par_iter().map(|cell| row(request, cell));
    rows.collect()
}

fn row(request: &Request, cell: Cell) -> Result<Row, BillingError> {
    let tariff = tariff::of((cell.operation, cell.system), cell.mechanism.name);
    // A table that cannot price the cell is told before a terabyte is walked for it.
    price::check(&tariff, &request.host)?;
    let items = request.order.pages;
    let walked = cell.travel(items)?;
    let name = cell.operation.name();
    let mut row = Row::new(name, cell.mechanism.name, cell.mechanism.role, items);
    row.batch = cell.batch;
    row.system = cell.system;
    row.crossings = crossings::by_kind(&walked);
    row.crossings_per_page = Some(row.crossings.values().fold(0.0, |sum, count| sum + count));
    row.checks = checks::of(cell.operation, &walked.checked);
    let priced = (tariff.as_slice(), &(&walked).into());
    price::set(&mut row, priced, (&request.host, request.samples))?;
    Ok(row)
}

fn notes(request: &Request) -> Vec<String> {
    let spread = match request.samples.count {
        1 => "costs: the host table's values as they are".to_owned(),
        count => format!(
            "costs: the machine in the middle of {count} drawn from the host table's spread (seed {}); in brackets \
             where 90 % of them lie",
            request.samples.seed
        ),
    };
    vec![
        spread,
        "crossings and checks: counted on the simulated system, which answers every conformance case as Xen 4.17 does"
            .to_owned(),
    ]
}
