//! Whether a row got dearer.

use serde::Serialize;

use super::permutation::p_value;
use crate::bill::{Evidence, Row};
use crate::spread::Spread;

/// A difference that chance brings less often than this is one.
pub const SIGNIFICANT: f64 = 0.05;
/// With fewer runs of each, no difference could be significant: of 3 and 3 there are 20 divisions, two of them extreme.
pub const LEAST_RUNS: usize = 4;

/// What is to be made of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It costs more.
    Dearer,
    /// It costs less.
    Cheaper,
    /// It costs the same, as far as can be told.
    Same,
    /// It was measured too seldom to tell.
    Undecided,
}

/// The verdict, and the likelihood that it rests on.
pub(super) fn of(
    (old, new): (&Row, &Row),
    evidence: Evidence,
    tolerance: f64,
) -> (Verdict, Option<f64>) {
    let (from, to) = (
        old.cost_per_page.unwrap_or_default(),
        new.cost_per_page.unwrap_or_default(),
    );
    match evidence {
        Evidence::Exact => (by_tolerance(from, to, tolerance), None),
        Evidence::Measured => measured(old, new, tolerance),
        Evidence::Modelled => (modelled((old, new), (from, to), tolerance), None),
    }
}

fn by_tolerance(old: f64, new: f64, tolerance: f64) -> Verdict {
    let allowed = old.abs() * tolerance;
    if new > old + allowed {
        Verdict::Dearer
    } else if new < old - allowed {
        Verdict::Cheaper
    } else {
        Verdict::Same
    }
}

/// Significant, and above the noise floor: the tolerance, or the deviation of either side's runs where that is more.
fn measured(old: &Row, new: &Row, tolerance: f64) -> (Verdict, Option<f64>) {
    if old.runs.len() < LEAST_RUNS || new.runs.len() < LEAST_RUNS {
        return (Verdict::Undecided, None);
    }
    let p = p_value(&old.runs, &new.runs);
    let noise = |runs: &[f64]| Spread::of(runs).map_or(0.0, |spread| spread.stddev / spread.mean);
    let floor = tolerance.max(noise(&old.runs)).max(noise(&new.runs));
    let mean = |runs: &[f64]| Spread::of(runs).map_or(0.0, |spread| spread.mean);
    let verdict = if p <= SIGNIFICANT {
        by_tolerance(mean(&old.runs), mean(&new.runs), floor)
    } else {
        Verdict::Same
    };
    (verdict, Some(p))
}

fn modelled((old, new): (&Row, &Row), (from, to): (f64, f64), tolerance: f64) -> Verdict {
    let (Some(before), Some(after)) = (old.interval, new.interval) else {
        return by_tolerance(from, to, tolerance);
    };
    if after.low > before.high || after.high < before.low {
        by_tolerance(from, to, tolerance)
    } else {
        Verdict::Same
    }
}
