//! Figures that orders of the simulator model: each order is run once, whichever figures are of it.

use std::collections::BTreeMap;

use pagetoll_backend::{Class, Error, Stop};
use pagetoll_bill::row::{Rate, RowSelection};
use pagetoll_bill::{Route, Spec, Toll};
use pagetoll_cost::published::{ModelOrder, Orders, PublishedFigure, PublishedUnit};
use pagetoll_cost::{CostKey, CostTable};
use rayon::prelude::*;

use crate::routes;
use crate::routes::demand::Calibrations;
use crate::routes::{Ordered, Sampled};
use crate::sensitivity::{Sensitivity, dominating};
use crate::validate::Comparison;

/// Orders by their words.
pub type Specs = BTreeMap<String, Spec>;

/// An order that was run, on all samples of its table and on each move of a single figure of it.
pub(super) struct RunOrder {
    ordered: Ordered,
    /// Rows without checks.
    rows: Vec<Sampled>,
}

impl RunOrder {
    /// Runs an order. Demand is run without moves, which take minutes: `pagetoll bill demand --sensitivity` makes them.
    fn new(spec: &Spec, calibrations: &Calibrations, stop: &Stop) -> Result<Self, Error> {
        let mut request = routes::request(spec)?;
        if spec.route != Route::Demand {
            let ordered = request.ordered();
            ordered.changes = moves(&ordered.costs);
        }
        let rows = request.sampled(calibrations, stop);
        let ordered = request.ordered();
        Ok(Self {
            rows: rows.map_err(|error| error.of_table(&ordered.costs.file))?,
            ordered: ordered.clone(),
        })
    }
}

/// Orders that were run, by their words: or the reason why one cannot be.
pub(super) type RunOrders = BTreeMap<String, Result<RunOrder, String>>;

/// Runs all orders, side by side; what they have in common once.
///
/// # Errors
/// A stop, or a failure that the orders are no reason for.
pub(super) fn run_all(specs: &Specs, stop: &Stop) -> Result<RunOrders, Error> {
    let calibrations = Calibrations::default();
    let ran = specs.par_iter().map(|(words, spec)| {
        let ran = match RunOrder::new(spec, &calibrations, stop) {
            Ok(ran) => Ok(ran),
            Err(refused) if refused.class() == Class::BadInput => Err(refused.to_string()),
            Err(failed) => return Err(failed),
        };
        Ok((words.clone(), ran))
    });
    ran.collect()
}

/// Each key of a table at its low, its value and its high.
fn moves(costs: &CostTable) -> Vec<(CostKey, f64)> {
    let of = |(key, figure): (CostKey, &pagetoll_cost::Figure)| {
        [figure.low, figure.value, figure.high].map(|value| (key, value))
    };
    costs.figures().flat_map(of).collect()
}

/// Compares a figure with orders that were run.
///
/// # Errors
/// The field of `model` that names nothing of them.
pub(super) fn compare(
    published: &PublishedFigure,
    model: &ModelOrder,
    ran: &RunOrders,
) -> Result<Comparison, String> {
    let unit = published.unit;
    let of = |words: &str| match ran.get(words) {
        Some(Ok(order)) => Ok(order),
        Some(Err(refused)) => Err(format!("{words}: {refused}")),
        None => Err(format!("{words}: not run")),
    };
    let one = |words: &str, row: &Option<String>| of(words)?.values(model, row, unit);
    let row_before = model.row_before.as_ref().or(model.row.as_ref()).cloned();
    let orders = model.orders(unit)?;
    let Values { drawn, moved } = match orders {
        Orders::One(order) => one(order, &model.row)?,
        Orders::Two(before, after) => {
            let (before, after) = (one(before, &row_before)?, one(after, &model.row)?);
            Values {
                drawn: compared(unit, before.drawn, after.drawn),
                moved: compared(unit, before.moved, after.moved),
            }
        }
    };
    let (Orders::One(order) | Orders::Two(_, order)) = orders;
    let Ordered { costs, route, .. } = &of(order)?.ordered;
    let keys = costs.figures().map(|(key, _)| key.name());
    let sensitivity = sensitivity(keys, &moved);
    Ok(Comparison::new(
        published,
        *route,
        costs,
        drawn,
        sensitivity,
    ))
}

/// Ratio or saving, sample by sample.
fn compared(unit: PublishedUnit, before: Vec<f64>, after: Vec<f64>) -> Vec<f64> {
    let both = before.into_iter().zip(after);
    both.map(|(before, after)| match unit {
        PublishedUnit::Ratio => before / after,
        PublishedUnit::Ns | PublishedUnit::Share | PublishedUnit::PagesPerSecond => before - after,
    })
    .collect()
}

/// Effects of the keys, from the numbers of their moves.
fn sensitivity(keys: impl Iterator<Item = &'static str>, moved: &[f64]) -> Vec<Sensitivity> {
    let moved = keys.zip(moved.chunks_exact(3));
    let all = moved.map(|(key, at)| Sensitivity {
        key,
        at_low: at[0],
        at_value: at[1],
        at_high: at[2],
    });
    dominating(all.collect())
}

/// A figure's numbers.
struct Values {
    /// On the samples that were drawn.
    drawn: Vec<f64>,
    /// On each key of the table at its low, its value and its high; of demand none.
    moved: Vec<f64>,
}

impl RunOrder {
    /// The figure's number in each sample.
    fn values(
        &self,
        model: &ModelOrder,
        row: &Option<String>,
        unit: PublishedUnit,
    ) -> Result<Values, String> {
        let selection = RowSelection::new(row);
        let rows = &self.rows;
        let selected: Vec<_> = rows
            .iter()
            .filter(|one| selection.includes(&one.row.key))
            .collect();
        let [row] = selected[..] else {
            let all = if selected.is_empty() {
                rows.iter().collect()
            } else {
                selected
            };
            let names: Vec<_> = all.iter().map(|one| one.row.key.to_string()).collect();
            let given = row.as_deref().unwrap_or("absent");
            return Err(format!(
                "model.row {given}: expected words of one of these rows: {}",
                names.join("; ")
            ));
        };
        if let Some(reason) = row.row.why_unavailable() {
            return Err(format!("{}: {reason}", row.row.key));
        }
        let beside = self.beside(model)?;
        let vcpus = row.row.key.vcpus.unwrap_or(1);
        let value = |(tolls, beside): (&Vec<Toll>, &f64)| {
            let cost = match &model.toll {
                None => Toll::sum(tolls),
                Some(name) => of_toll(tolls, name, unit)?,
            };
            Ok(match unit {
                PublishedUnit::PagesPerSecond => {
                    Rate::of_cost(vcpus, cost + beside).pages_per_second
                }
                PublishedUnit::Ns | PublishedUnit::Ratio | PublishedUnit::Share => cost + beside,
            })
        };
        let values = row.samples.iter().zip(&beside).map(value);
        let mut drawn = values.collect::<Result<Vec<f64>, String>>()?;
        let moved = drawn.split_off(drawn.len().min(self.ordered.samples.count as usize));
        Ok(Values { drawn, moved })
    }

    /// The cost that is paid beside the row, in each sample.
    fn beside(&self, model: &ModelOrder) -> Result<Vec<f64>, String> {
        let indices = 0..self.ordered.count();
        let Some(name) = &model.beside else {
            return Ok(indices.map(|_| 0.0).collect());
        };
        let key = CostKey::named(name)
            .ok_or_else(|| format!("model.beside {name}: expected a key of cost tables"))?;
        let price = |index| self.ordered.prices(index).price(key);
        let prices = indices.map(price).collect::<Result<_, _>>();
        prices.map_err(|error| format!("model.beside: {error}"))
    }
}

/// A number of the toll of that name: how often it is paid, for a share, else the cost of one time.
fn of_toll(tolls: &[Toll], name: &str, unit: PublishedUnit) -> Result<f64, String> {
    let toll = tolls.iter().find(|toll| toll.name == name);
    let names = || {
        tolls
            .iter()
            .map(|toll| toll.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let toll = toll.ok_or_else(|| format!("model.toll {name}: expected one of {}", names()))?;
    Ok(match unit {
        PublishedUnit::Share => toll.count_per_page,
        PublishedUnit::Ns | PublishedUnit::Ratio | PublishedUnit::PagesPerSecond => toll.cost_each,
    })
}
