//! Published figures beside what the model makes of them.
//!
//! A comparison names the table that prices it and computes one number from mechanisms that were run on the
//! simulated system. A figure that its table was fitted to is shown, but is no prediction.

mod expressions;
pub mod live;

use pagetoll_bill::row::Interval;
use pagetoll_bill::row::error_of;
use pagetoll_cost::published::{PublishedFigure, PublishedUnit};
use pagetoll_cost::{CostKey, CostTable, Prices};
use rayon::prelude::*;
use serde::Serialize;

use crate::costs;
use crate::error::BillingError;
use crate::routes::Samples;
use crate::sensitivity::dominating;

pub use crate::sensitivity::Sensitivity;

/// A published figure and the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The published figure.
    pub published: PublishedFigure,
    /// The cost table that priced the model.
    pub costs: String,
    /// The result on the machine in the middle of the samples, in the figure's unit; of a single sample with the table's
    /// own values.
    pub modelled: f64,
    /// Interval of 90 % of the samples; absent for a single one.
    pub interval: Option<Interval>,
    /// Error of the model: 0 when it meets the figure, 1 when one is twice the other.
    pub error: f64,
    /// Set where the published figure is inside the interval.
    pub inside: bool,
    /// Set where the table was fitted to it: then it is no prediction.
    pub fitted: bool,
    /// Effects of the table's figures that dominate the result, one at a time; the strongest first.
    pub sensitivity: Vec<Sensitivity>,
}

/// Compares all published figures that the model can express with it, in the order of `published`.
///
/// # Errors
/// A table lacks a figure.
pub fn validate(
    published: &[PublishedFigure],
    samples: Samples,
) -> Result<Vec<Comparison>, BillingError> {
    let known = published
        .par_iter()
        .filter_map(|figure| Some((figure, expressions::named(&figure.id)?)));
    known
        .map(|(figure, expression)| {
            let costs = costs::named(expression.costs)?;
            compare(figure, &costs, &(expression.prepare)()?, samples)
        })
        .collect()
}

/// Published figures that no model expresses yet. Rates are compared by the bill of the demand route.
pub fn unexpressed(published: &[PublishedFigure]) -> impl Iterator<Item = &PublishedFigure> {
    published
        .iter()
        .filter(|figure| expressions::named(&figure.id).is_none())
        .filter(|figure| figure.unit != PublishedUnit::PagesPerSecond)
}

fn compare(
    published: &PublishedFigure,
    costs: &CostTable,
    model: &expressions::Model,
    samples: Samples,
) -> Result<Comparison, BillingError> {
    let drawn = (0..u64::from(samples.count)).into_par_iter();
    let drawn = drawn.map(|index| model(&samples.prices(costs, index), samples.seed ^ index));
    let mut drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    let interval = Interval::of_middle(&mut drawn);
    let modelled = middle(drawn).unwrap_or(f64::NAN);
    let inside = |Interval { low, high }: Interval| (low..=high).contains(&published.value);
    Ok(Comparison {
        costs: costs.name.clone(),
        modelled,
        interval,
        error: error_of(modelled, published.value),
        inside: interval.is_some_and(inside),
        fitted: costs.is_fitted_to(&published.id),
        sensitivity: sensitivity(costs, |prices| model(prices, samples.seed))?,
        published: published.clone(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_the_vfio_host_meets_the_one_figure_that_it_is_fitted_to() {
        let is_of_vfio = |figure: &&PublishedFigure| figure.id.starts_with("vfio-");
        let published: Vec<_> = PublishedFigure::built_in()
            .iter()
            .filter(is_of_vfio)
            .cloned()
            .collect();
        let compared = validate(&published, Samples { count: 1, seed: 1 }).unwrap();
        let fitted: Vec<_> = compared.iter().filter(|one| one.fitted).collect();
        let [fitted] = fitted[..] else {
            panic!("{} figures are fitted", fitted.len());
        };
        assert_eq!(fitted.published.id, "vfio-map.2M.per-page");
        assert!(fitted.error < 0.001, "{}", fitted.error);
        assert_eq!(compared.len(), 17);
    }
}
