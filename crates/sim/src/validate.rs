//! Published figures beside what the model makes of them.
//!
//! A comparison names the table that prices it and computes one number from mechanisms that were run on the
//! simulated system. A figure that its table was fitted to is shown, but is no prediction.

mod expressions;
pub mod live;
mod model_error;
mod modelled;

use pagetoll_backend::{Error, Stop};
use pagetoll_bill::Route;
use pagetoll_bill::row::Interval;
use pagetoll_bill::row::error_of;
use pagetoll_cost::published::PublishedFigure;
use pagetoll_cost::{CostKey, CostTable, Prices};
use rayon::prelude::*;
use serde::Serialize;

use crate::costs;
use crate::error::BillingError;
use crate::routes::Samples;
use crate::sensitivity::dominating;

pub use crate::sensitivity::Sensitivity;
pub use modelled::Specs;

/// A published figure and the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The published figure.
    pub published: PublishedFigure,
    /// The route that models it.
    pub route: Route,
    /// The cost table that priced the model.
    pub costs: String,
    /// The result on the machine in the middle of the samples, in the figure's unit; of a single sample with the table's
    /// own values.
    pub modelled: f64,
    /// Interval of 90 % of the samples; absent for a single one.
    pub interval: Option<Interval>,
    /// The interval widened by the model's error, as predictions of other groups show it; absent where there are none.
    pub interval_with_error: Option<Interval>,
    /// Error of the model: 0 when it meets the figure, 1 when one is twice the other.
    pub error: f64,
    /// Set where the table was fitted to it: then it is no prediction.
    pub fitted: bool,
    /// Effects of the table's figures that dominate the result, one at a time; the strongest first.
    pub sensitivity: Vec<Sensitivity>,
}

impl Comparison {
    /// True where the published figure is inside the interval of the samples.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.is_in(self.interval)
    }

    /// True where the published figure is inside the interval with the model's error.
    #[must_use]
    pub fn is_inside_with_error(&self) -> bool {
        self.is_in(self.interval_with_error)
    }

    fn is_in(&self, interval: Option<Interval>) -> bool {
        let contains = |Interval { low, high }| (low..=high).contains(&self.published.value);
        interval.is_some_and(contains)
    }

    /// Name of the figures that stand and fall with this one: its own where there are none.
    #[must_use]
    pub fn group(&self) -> &str {
        self.published
            .group
            .as_deref()
            .unwrap_or(&self.published.id)
    }
}

/// A list of published figures: its name in messages, its entries, and the order that each entry's words make.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// Name in messages.
    pub file: &'a str,
    /// Its figures.
    pub figures: &'a [PublishedFigure],
    /// Orders of the simulator by their words.
    pub specs: &'a Specs,
}

/// Compares all published figures that the model can express with it, in the order of the list.
///
/// # Errors
/// A table lacks a figure; an order that cannot be run; an entry that names no row, toll or key.
pub fn validate(list: List<'_>, samples: Samples, stop: &Stop) -> Result<Vec<Comparison>, Error> {
    let ran = modelled::run_all(list.specs, stop)?;
    let compared = list.figures.par_iter().filter_map(|figure| {
        if let Some(model) = &figure.model {
            let refused =
                |problem| Error::bad_input(figure.refused(list.file, problem).to_string());
            return Some(modelled::compare(figure, model, &ran).map_err(refused));
        }
        let expression = expressions::named(&figure.id)?;
        let by_expression = || -> Result<Comparison, BillingError> {
            let costs = costs::find(expression.costs)?;
            compare(figure, &costs, &(expression.prepare)()?, samples)
        };
        Some(by_expression().map_err(Error::from))
    });
    compared.collect()
}

/// Widens the intervals of `compared` by the model's error, as the predictions of `known` show it.
pub fn add_model_error(compared: &mut [Comparison], known: &[Comparison]) {
    model_error::add(compared, known);
}

/// Published figures that no model expresses yet.
pub fn unexpressed(published: &[PublishedFigure]) -> impl Iterator<Item = &PublishedFigure> {
    published
        .iter()
        .filter(|figure| figure.model.is_none() && expressions::named(&figure.id).is_none())
}

fn compare(
    published: &PublishedFigure,
    costs: &CostTable,
    model: &expressions::Model,
    samples: Samples,
) -> Result<Comparison, BillingError> {
    let drawn = (0..u64::from(samples.count)).into_par_iter();
    let drawn = drawn.map(|index| model(&samples.prices(costs, index), samples.seed ^ index));
    let sensitivity = sensitivity(costs, |prices| model(prices, samples.seed))?;
    let drawn = drawn.collect::<Result<_, _>>()?;
    Ok(Comparison::new(
        published,
        Route::Unmap,
        costs,
        drawn,
        sensitivity,
    ))
}

impl Comparison {
    fn new(
        published: &PublishedFigure,
        route: Route,
        costs: &CostTable,
        mut drawn: Vec<f64>,
        sensitivity: Vec<Sensitivity>,
    ) -> Self {
        let interval = Interval::of_middle(&mut drawn);
        let modelled = middle(drawn).unwrap_or(f64::NAN);
        Self {
            route,
            costs: costs.name.clone(),
            modelled,
            interval,
            interval_with_error: None,
            error: error_of(modelled, published.value),
            fitted: costs.is_fitted_to(&published.id),
            sensitivity,
            published: published.clone(),
        }
    }
}

/// The sample in the middle, which is inside every interval around the middle; the lower of two.
pub(crate) fn middle(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len().checked_sub(1)? / 2).copied()
}

fn sensitivity(
    costs: &CostTable,
    result: impl Fn(&Prices<'_>) -> Result<f64, BillingError>,
) -> Result<Vec<Sensitivity>, BillingError> {
    let at_value = result(&costs.prices())?;
    let at = |key: CostKey, value| result(&costs.prices_with(key, value));
    let of = |(key, figure): (CostKey, &pagetoll_cost::Figure)| {
        Ok(Sensitivity {
            key: key.name(),
            at_low: at(key, figure.low)?,
            at_value,
            at_high: at(key, figure.high)?,
        })
    };
    let all = costs.figures().map(of);
    Ok(dominating(all.collect::<Result<_, BillingError>>()?))
}
