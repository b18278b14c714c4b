//! Published figures beside what the model makes of them.
//!
//! A comparison names the table that prices it and computes one number from mechanisms that were travelled on the
//! simulated system. A figure that its table was fitted to is shown, but is no prediction.

mod expressions;
pub mod live;

use pagetoll_bill::Interval;
use pagetoll_bill::cost::published::{Published, PublishedUnit, error_of};
use pagetoll_bill::cost::{CostKey, Host, Prices};
use rayon::prelude::*;
use serde::Serialize;

use crate::routes::{BillingError, Samples};

pub use expressions::HOSTS;

/// A published figure and the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What was published.
    pub published: Published,
    /// The host table that priced the model.
    pub host: String,
    /// The result with the table's own values, in the figure's unit.
    pub modelled: f64,
    /// Where 90 % of the samples lie; absent for a single one.
    pub interval: Option<Interval>,
    /// How far the model is off: 0 when it meets the figure, 1 when one is twice the other.
    pub error: f64,
    /// Whether the published figure is inside the interval.
    pub inside: bool,
    /// Whether the table was fitted to it: then it is no prediction.
    pub fitted: bool,
    /// What the figures of the table that dominate the result do to it, one at a time; the strongest first.
    pub sensitivity: Vec<Sensitivity>,
}

/// What one figure of the table does to a result while the others keep their values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sensitivity {
    /// The figure's key.
    pub key: &'static str,
    /// The result with the figure at its low.
    pub at_low: f64,
    /// The result with the figure at its high.
    pub at_high: f64,
}

/// How many figures of the table are named as dominating a result.
const DOMINATING: usize = 4;

/// Compares all published figures that the model can express with it, in the order of `published`. `host` finds a table
/// by its name, one of [`HOSTS`].
///
/// # Errors
/// A table lacks a figure.
pub fn validate<'a>(
    published: &[Published],
    host: impl Fn(&str) -> &'a Host + Sync,
    samples: Samples,
) -> Result<Vec<Comparison>, BillingError> {
    let known = published
        .par_iter()
        .filter_map(|figure| Some((figure, expressions::named(&figure.id)?)));
    known
        .map(|(figure, expression)| {
            let model = (expression.prepare)()?;
            compare(figure, (host(expression.host), &model), samples)
        })
        .collect()
}

/// Published figures that no model expresses yet. Rates are compared by the bill of the demand route.
pub fn unexpressed(published: &[Published]) -> impl Iterator<Item = &Published> {
    published
        .iter()
        .filter(|figure| expressions::named(&figure.id).is_none())
        .filter(|figure| figure.unit != PublishedUnit::PagesPerSecond)
}

fn compare(
    published: &Published,
    (host, model): (&Host, &expressions::Model),
    samples: Samples,
) -> Result<Comparison, BillingError> {
    let modelled = model(&host.prices(), samples.seed)?;
    let drawn = (0..u64::from(samples.count)).into_par_iter();
    let drawn = drawn.map(|index| model(&host.sample(samples.seed, index), samples.seed ^ index));
    let interval = Interval::of_middle(&mut drawn.collect::<Result<Vec<_>, _>>()?);
    let inside = |Interval { low, high }: Interval| (low..=high).contains(&published.value);
    Ok(Comparison {
        host: host.name.clone(),
        modelled,
        interval,
        error: error_of(modelled, published.value),
        inside: interval.is_some_and(inside),
        fitted: host.is_fitted_to(&published.id),
        sensitivity: sensitivity(host, |prices| model(prices, samples.seed))?,
        published: published.clone(),
    })
}

fn sensitivity(
    host: &Host,
    result: impl Fn(&Prices<'_>) -> Result<f64, BillingError>,
) -> Result<Vec<Sensitivity>, BillingError> {
    let at = |key: CostKey, value| result(&host.prices_with(key, value));
    let of = |(key, figure): (CostKey, &pagetoll_bill::cost::Figure)| {
        Ok(Sensitivity {
            key: key.name(),
            at_low: at(key, figure.low)?,
            at_high: at(key, figure.high)?,
        })
    };
    let all = host.figures().map(of);
    Ok(dominating(all.collect::<Result<_, BillingError>>()?))
}

/// Those that dominate; the strongest first.
pub(crate) fn dominating(mut all: Vec<Sensitivity>) -> Vec<Sensitivity> {
    let effect = |one: &Sensitivity| (one.at_high - one.at_low).abs();
    all.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    // What does not enter the result differs at most by rounding.
    all.retain(|one| effect(one) > 1e-9 * one.at_high.abs());
    all.truncate(DOMINATING);
    all
}
