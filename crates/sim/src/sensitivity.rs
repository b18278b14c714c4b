//! Figures of a cost table that a result depends on.

use serde::Serialize;

/// Effect of one figure of the table on a result while the others keep their values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sensitivity {
    /// The figure's key.
    pub key: &'static str,
    /// The result with the figure at its low.
    pub at_low: f64,
    /// The result with the table's own values.
    pub at_value: f64,
    /// The result with the figure at its high.
    pub at_high: f64,
}

/// Number of figures of the table that are named as dominating a result.
const DOMINATING: usize = 4;

/// Figures that dominate; the strongest first.
pub(crate) fn dominating(mut all: Vec<Sensitivity>) -> Vec<Sensitivity> {
    let effect = |one: &Sensitivity| (one.at_high - one.at_low).abs();
    all.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    // What does not enter the result differs at most by rounding.
    all.retain(|one| effect(one) > 1e-9 * one.at_high.abs());
    all.truncate(DOMINATING);
    all
}
