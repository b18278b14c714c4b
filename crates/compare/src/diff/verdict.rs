//! Verdict on a row.

use pagetoll_bill::{Evidence, Figures, Row, Spread, names};

use super::permutation::p_value;

/// Significance level of differences.
pub const SIGNIFICANT: f64 = 0.05;
/// With fewer runs of each, no difference could be significant: of 3 and 3 there are 20 divisions, two of them extreme.
pub const LEAST_RUNS: usize = 4;

names! {
    /// Change of a cost.
    pub enum Verdict as "verdict" {
        /// The cost rose beyond the tolerance.
        Regressed,
        /// The cost fell beyond the tolerance.
        Improved,
        /// The cost is the same, as far as the figures can say.
        Same,
        /// Too few runs to decide.
        Undecided,
        /// The cost spreads too far to be compared.
        Unsteady,
    }
}

/// A verdict, and the probability behind it.
pub(super) struct Comparison {
    pub(super) verdict: Verdict,
    /// For measured costs only.
    pub(super) p_value: Option<f64>,
}

impl From<Verdict> for Comparison {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            p_value: None,
        }
    }
}

/// Rule for comparing costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Evidence of the figures.
    pub evidence: Evidence,
    /// Difference below which they are equal, as a share.
    pub tolerance: f64,
}

pub(super) fn compare(old: &Row, new: &Row, rule: Rule) -> Comparison {
    let Rule {
        evidence,
        tolerance,
    } = rule;
    match evidence {
        Evidence::Exact => exact(old, new, tolerance).into(),
        Evidence::Measured => measured(runs(old), runs(new), tolerance),
        Evidence::Modelled => modelled(old, new, tolerance).into(),
    }
}

/// Beyond the tolerance, and beyond the spread of either side where that is known and more.
fn exact(old: &Row, new: &Row, tolerance: f64) -> Verdict {
    let figures = [old, new].map(Row::figures).into_iter().flatten();
    if figures.clone().any(Figures::is_unsteady) {
        return Verdict::Unsteady;
    }
    let spreads = figures.filter_map(|figures| figures.spread);
    by_tolerance(mean(old), mean(new), spreads.fold(tolerance, f64::max))
}

fn mean(row: &Row) -> f64 {
    row.cost().unwrap_or_default()
}

fn runs(row: &Row) -> &[f64] {
    row.figures().map_or(&[], |figures| &figures.runs)
}

fn by_tolerance(old: f64, new: f64, tolerance: f64) -> Verdict {
    let allowed = old.abs() * tolerance;
    if new > old + allowed {
        Verdict::Regressed
    } else if new < old - allowed {
        Verdict::Improved
    } else {
        Verdict::Same
    }
}

/// Significant, and above the noise floor: the tolerance, or the deviation of either side's runs where that is more.
fn measured(old: &[f64], new: &[f64], tolerance: f64) -> Comparison {
    if old.len() < LEAST_RUNS || new.len() < LEAST_RUNS {
        return Verdict::Undecided.into();
    }
    let p = p_value(old, new);
    let spread = |runs: &[f64]| {
        Spread::new(runs).unwrap_or(Spread {
            mean: 0.0,
            stddev: 0.0,
        })
    };
    let (from, to) = (spread(old), spread(new));
    let floor = [from, to].iter().fold(tolerance, |floor, spread| {
        floor.max(spread.stddev / spread.mean)
    });
    let verdict = if p <= SIGNIFICANT {
        by_tolerance(from.mean, to.mean, floor)
    } else {
        Verdict::Same
    };
    Comparison {
        verdict,
        p_value: Some(p),
    }
}

fn modelled(old: &Row, new: &Row, tolerance: f64) -> Verdict {
    let interval = |row: &Row| row.figures().and_then(|figures| figures.interval);
    match (interval(old), interval(new)) {
        (Some(before), Some(after)) if after.low <= before.high && after.high >= before.low => {
            Verdict::Same
        }
        _ => by_tolerance(mean(old), mean(new), tolerance),
    }
}
