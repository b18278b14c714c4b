//! The pin route: memory of each shape is mapped and unmapped on the model of VFIO, and a cost table prices what was
//! done.
//!
//! Nothing is computed from the order: counts are those of the model's own loops ([`pagetoll_host_models::vfio::Tolls`]).

pub mod calibrate;
pub(crate) mod shape;
pub(crate) mod tariff;

use pagetoll_backend::Stop;
use pagetoll_bill::route::sim::Pin;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Check, Limits, RowKey, Spec, System};
use pagetoll_cost::CostKey;
use pagetoll_host_models::vfio::Mechanism;
use pagetoll_units::Pages;

use self::shape::{Extent, PinRun, SHAPES, Shape, run};
use self::tariff::{IOCTLS, Ioctl};
use super::price;
use super::{DEFAULT_SAMPLES, Model, Modelled, Ordered, Sampled, versions};
use crate::error::{BillingError, RequestError};

/// At most 64 GiB. A model has no noise to be averaged out, so one run.
const LIMITS: Limits = Limits::pages(1 << 16, 1 << 24);

pub(super) const MODEL: Model = Model {
    costs: "lab-vfio-6.18",
    request: |spec| Ok(Box::new(Request::new(spec)?)),
    figures: |_| None,
};

/// Shapes that are mapped, and by which prices.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    ordered: Ordered,
    shapes: Vec<Shape>,
}

impl Request {
    pub(crate) fn new(spec: &Spec) -> Result<Self, RequestError> {
        let is_unknown = |folio: &&Folio| Shape::named(**folio).is_none();
        if let Some(&given) = spec.folios.iter().find(is_unknown) {
            let expected = SHAPES.map(|shape| shape.folio.name()).join(", ");
            return Err(RequestError::Folio { given, expected });
        }
        let is_ordered =
            |shape: &Shape| spec.folios.is_empty() || spec.folios.contains(&shape.folio);
        Ok(Self {
            ordered: Ordered::new(spec, &LIMITS, DEFAULT_SAMPLES)?,
            shapes: SHAPES.into_iter().filter(is_ordered).collect(),
        })
    }
}

/// The model of a mechanism.
#[must_use]
pub const fn model(mechanism: Pin) -> Mechanism {
    match mechanism {
        Pin::PerPage => Mechanism::PerPage,
        Pin::PerBatch => Mechanism::PerBatch,
        Pin::PerFolio => Mechanism::PerFolio,
        Pin::Range => Mechanism::Range,
    }
}

impl super::Request for Request {
    fn ordered(&mut self) -> &mut Ordered {
        &mut self.ordered
    }

    fn run(&self, stop: &Stop) -> Result<Modelled, BillingError> {
        let ordered = &self.ordered;
        let mut rows = Vec::new();
        let mut notes = vec![ordered.spread()];
        for mechanism in ordered.order.of::<Pin>() {
            let contiguity = contiguity(model(mechanism));
            for shape in &self.shapes {
                stop.check()?;
                rows.extend(rows_of(ordered, mechanism, *shape, &contiguity)?);
            }
            notes.extend(versions::pin_warning(&ordered.costs, mechanism));
        }
        notes.push(CONTIGUITY.to_owned());
        Ok(Modelled { rows, notes })
    }
}

/// Check of pages that lie apart, against the mechanism that takes them for contiguous.
fn contiguity(model: Mechanism) -> Check {
    let failed = misplaced(model);
    match model {
        Mechanism::PerBatch => Check::of_control(Check::CONTIGUITY, TRIED, failed),
        Mechanism::PerPage | Mechanism::PerFolio | Mechanism::Range => {
            let control = misplaced(Mechanism::PerBatch);
            Check::against_control(Check::CONTIGUITY, TRIED, failed, control)
        }
    }
}

/// A row for each ioctl on a shape.
fn rows_of(
    ordered: &Ordered,
    mechanism: Pin,
    shape: Shape,
    contiguity: &Check,
) -> Result<Vec<Sampled>, BillingError> {
    let model = model(mechanism);
    let ran = run(model, shape, Extent::new(shape.pages(ordered.order.pages)));
    let rows = IOCTLS.into_iter().map(|ioctl| {
        let key = RowKey {
            folio: Some(shape.folio),
            ..RowKey::new(ioctl.operation, mechanism, System::Native)
        };
        let mut sampled = sampled(ordered, key, ioctl, &ran)?;
        sampled.row.checks = checks(model, &ran, contiguity);
        Ok(sampled)
    });
    rows.collect()
}

const CONTIGUITY: &str = "contiguity: half of a 2 MiB page and half of the next, which lies elsewhere; per-batch takes them for one";

/// Pages of the failing case: a call of 512, in the middle of two folios.
const TRIED: u64 = 512;

/// Number of those pages that the device finds elsewhere.
fn misplaced(mechanism: Mechanism) -> u64 {
    let halves = Shape::named(Folio::Halves2m);
    halves.map_or(0, |shape| {
        run(mechanism, shape, Extent::new(TRIED)).misplaced
    })
}

/// Checks of a mechanism. Errors of per-batch are in the check that it is the control of.
fn checks(mechanism: Mechanism, ran: &PinRun, contiguity: &Check) -> Vec<Check> {
    let check = |name, failed| Check::against_known(name, ran.pages, failed);
    let own = match mechanism {
        Mechanism::PerBatch => Vec::new(),
        Mechanism::PerPage | Mechanism::PerFolio | Mechanism::Range => vec![
            check("locked", ran.pages.abs_diff(ran.locked)),
            check("unlocked", ran.left),
            check("device-reads", ran.misplaced),
        ],
    };
    own.into_iter().chain([contiguity.clone()]).collect()
}

fn sampled(
    ordered: &Ordered,
    key: RowKey,
    ioctl: Ioctl,
    ran: &PinRun,
) -> Result<Sampled, BillingError> {
    let costs = &ordered.costs;
    let (mut tariff, counted) = ioctl.paid(ran);
    // A table without this figure is of a kernel without this step.
    tariff.retain(|item| item.key != CostKey::PIN_LONGTERM || costs.figure(item.key).is_ok());
    let samples = price::samples(&tariff, &counted, ordered)?;
    let mut sampled = Sampled::new(key, Pages(ran.pages), samples);
    sampled.row.layout = Some(ran.layout);
    Ok(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Request as _;
    use pagetoll_bill::{Draft, Route, Toll, Verdict};

    fn billed(mechanisms: &[&str]) -> Draft {
        let mut spec = Spec::new(Route::Pin);
        spec.pages = Some(Pages(2048));
        spec.mechanisms = mechanisms.iter().map(|&name| name.to_owned()).collect();
        spec.sim.samples = Some(20);
        Request::new(&spec).unwrap().bill(&Stop::new()).unwrap()
    }

    #[test]
    fn every_check_passes_but_that_of_the_mechanism_which_is_wrong() {
        let draft = billed(&[]);
        assert_eq!(draft.order.mechanisms.len(), 4);
        for row in &draft.rows {
            let (contiguity, others) = row.checks.split_last().unwrap();
            assert!(others.iter().all(|check| check.verdict == Verdict::Pass));
            let expected = if row.key.method == Pin::PerBatch.into() {
                Verdict::Fail
            } else {
                Verdict::Pass
            };
            assert_eq!(
                (contiguity.name.as_str(), contiguity.verdict),
                (Check::CONTIGUITY, expected)
            );
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_and_the_same_order_gives_the_same_bill() {
        let first = billed(&["per-folio"]);
        for row in &first.rows {
            assert!((Toll::sum(row.tolls()) - row.cost().unwrap()).abs() < 1e-9);
        }
        assert_eq!(billed(&["per-folio"]), first);
    }

    #[test]
    fn a_shape_that_is_not_modelled_is_refused_with_those_that_are() {
        let mut spec = Spec::new(Route::Pin);
        spec.folios = vec![Folio::Thp, Folio::File];
        let refused = Request::new(&spec).unwrap_err().to_string();
        assert!(
            refused.starts_with("--folio file: not modelled; expected one of 4K, THP, 2M, 1G"),
            "{refused}"
        );
    }
}
