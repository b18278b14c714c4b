//! The model as a backend: memory of each shape is mapped and unmapped on it, and a host table prices what was done.
//!
//! Nothing is computed from the order: counts are those of the model's own loops ([`Tolls`]).

pub mod calibrate;
mod shape;
mod tariff;

use std::collections::BTreeMap;

use pagetoll_bill::cost::Host;
use pagetoll_bill::{
    Backend, Bill, Check, Evidence, Limits, Order, Provenance, Role, Route, Row, Schema, System,
};
use pagetoll_units::Pages;

use self::shape::{Extent, Travelled, travel};
use self::tariff::{OPERATIONS, Operation};
use crate::routes::price::{self, Counted, Item};
use crate::routes::{BillingError, Samples};
use pagetoll_models::vfio::{Mechanism, Tolls};

pub use self::shape::{FOLIOS, Shape};

/// What the model can take: 64 GiB. It has no noise to be averaged out, so one run.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 24),
    batch: 1,
    runs: 1,
};

/// What is to be billed, and by which prices.
#[derive(Clone, Debug)]
pub struct Request {
    /// Pages and mechanisms.
    pub order: Order,
    /// Names of the shapes, of [`FOLIOS`].
    pub folios: Vec<String>,
    /// What things cost.
    pub host: Host,
    /// How often the table is sampled.
    pub samples: Samples,
    /// The command line, for the bill's provenance.
    pub command: String,
}

/// Bills the route.
///
/// # Errors
/// [`BillingError::Host`] when the table lacks a figure.
pub fn bill(request: &Request) -> Result<Bill, BillingError> {
    let mechanisms: Vec<_> = Mechanism::ALL
        .into_iter()
        .filter(|m| request.order.mechanisms.iter().any(|n| n == m.name()))
        .collect();
    let shapes: Vec<_> = FOLIOS
        .into_iter()
        .filter(|shape| request.folios.iter().any(|name| name == shape.name))
        .collect();
    let control = contiguity(Mechanism::PerBatch);
    let mut rows = Vec::new();
    for mechanism in mechanisms {
        let check = contiguity_check(mechanism, control);
        for shape in &shapes {
            let extent = Extent::of(shape.pages(request.order.pages));
            let travelled = travel(mechanism, *shape, extent);
            for operation in OPERATIONS {
                let mut row = row(request, (mechanism, *shape), operation, &travelled)?;
                row.checks.push(check.clone());
                rows.push(row);
            }
        }
    }
    Ok(Bill {
        schema: Schema::V1,
        route: Route::Pin,
        backend: Backend::Sim,
        backend_reason: String::new(),
        unit: request.host.unit,
        evidence: Evidence::Modelled,
        stack: BTreeMap::from([("host".to_owned(), request.host.name.clone())]),
        rows,
        order: request.order.clone(),
        notes: vec![
            "contiguity: half of a 2 MiB page and half of the next, which lies elsewhere; per-batch takes them for one"
                .to_owned(),
        ],
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    })
}

/// Pages of the failing case: a call of 512, in the middle of two folios.
const TRIED: u64 = 512;

/// How many of them the device finds elsewhere.
fn contiguity(mechanism: Mechanism) -> u64 {
    let halves = Shape::named("2M-halves");
    halves.map_or(0, |shape| {
        travel(mechanism, shape, Extent::of(TRIED)).misplaced
    })
}

fn contiguity_check(mechanism: Mechanism, control: u64) -> Check {
    let failed = contiguity(mechanism);
    match mechanism {
        Mechanism::PerBatch => Check::of_control(Check::CONTIGUITY, TRIED, failed),
        _ => Check::against_control(Check::CONTIGUITY, TRIED, failed, control),
    }
}

fn row(
    request: &Request,
    (mechanism, shape): (Mechanism, Shape),
    operation: Operation,
    travelled: &Travelled,
) -> Result<Row, BillingError> {
    let role = Route::Pin
        .mechanism(mechanism.name())
        .map_or(Role::Alternative, |known| known.role);
    let pages = Pages(travelled.pages);
    let mut row = Row::new(operation.name, mechanism.name(), role, pages);
    row.system = System::Native;
    row.folio = Some(shape.name.to_owned());
    row.layout = Some(travelled.layout);
    row.smp_safe = None;
    let counts = (operation.tolls)(travelled);
    // Tolls that did not occur are left out, and need no figure.
    let occurred = |item: &&Item<Tolls>| (item.count)(&counts) > 0;
    let tariff: Vec<_> = operation.tariff.iter().filter(occurred).copied().collect();
    let counted = Counted {
        counts: &counts,
        items: travelled.pages,
    };
    let priced = (tariff.as_slice(), &counted);
    price::set(&mut row, priced, (&request.host, request.samples))?;
    // What per-batch does wrong stands in the check that it is the control of.
    if mechanism != Mechanism::PerBatch {
        row.checks = vec![
            Check::against_known(
                "locked",
                pages.get(),
                pages.get().abs_diff(travelled.locked),
            ),
            Check::against_known("unlocked", pages.get(), travelled.left),
            Check::against_known("device-reads", pages.get(), travelled.misplaced),
        ];
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_bill::Toll;

    const TABLE: &str = include_str!("../../../../costs/lab-vfio-6.18.toml");

    fn request(mechanisms: &[Mechanism]) -> Request {
        Request {
            order: Order {
                pages: Pages(2048),
                batches: vec![1],
                mechanisms: mechanisms.iter().map(|m| m.name().to_owned()).collect(),
                runs: 1,
            },
            folios: FOLIOS.iter().map(|shape| shape.name.to_owned()).collect(),
            host: Host::parse("lab-vfio-6.18", TABLE).unwrap(),
            samples: Samples { count: 20, seed: 1 },
            command: String::new(),
        }
    }

    #[test]
    fn every_check_passes_but_that_of_the_mechanism_which_is_wrong() {
        use pagetoll_bill::Verdict;
        let bill = bill(&request(&Mechanism::ALL)).unwrap();
        assert_eq!(bill.checks_with(Verdict::Fail).count(), 0);
        assert_eq!(bill.checks_with(Verdict::Inconclusive).count(), 0);
        for row in &bill.rows {
            let check = row.checks.last().unwrap();
            let expected = if row.mechanism == "per-batch" {
                Verdict::Fail
            } else {
                Verdict::Pass
            };
            assert_eq!(
                (check.name.as_str(), check.verdict),
                (Check::CONTIGUITY, expected)
            );
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_and_the_same_order_gives_the_same_bill() {
        let request = request(&[Mechanism::PerFolio]);
        let first = bill(&request).unwrap();
        for row in &first.rows {
            let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
            assert!((sum - row.cost_per_page.unwrap()).abs() < 1e-9);
        }
        assert_eq!(bill(&request).unwrap(), first);
    }
}
