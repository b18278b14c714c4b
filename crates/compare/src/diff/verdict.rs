//! Verdict on a row.

use pagetoll_bill::row::Interval;
use pagetoll_bill::{Bill, Evidence, Figures, Row, names};

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
        /// Too few runs, or a busy host: nothing can be decided.
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
    /// Hosts on which they were measured.
    pub hosts: Hosts,
}

/// Hosts of two measured bills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Nothing else ran, as far as the bills say.
    Idle,
    /// Others took CPU time from one of the bills at least: a difference says nothing of the mechanisms.
    Busy,
}

impl Hosts {
    /// The hosts of two bills.
    #[must_use]
    pub fn new(bills: [&Bill; 2]) -> Self {
        let loads = bills
            .into_iter()
            .filter_map(|bill| bill.provenance.inputs.host_load);
        match loads.into_iter().any(|load| load.is_busy()) {
            true => Self::Busy,
            false => Self::Idle,
        }
    }

    /// The hosts of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Idle, Self::Idle) => Self::Idle,
            _ => Self::Busy,
        }
    }
}

pub(super) fn compare(old: &Row, new: &Row, rule: Rule) -> Comparison {
    let tolerance = rule.tolerance;
    match rule.evidence {
        Evidence::Exact => exact(old, new, tolerance).into(),
        Evidence::Measured => measured(old, new, rule),
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
    by_tolerance(cost(old), cost(new), spreads.fold(tolerance, f64::max))
}

fn cost(row: &Row) -> f64 {
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

/// Beyond the tolerance and significant, and neither figure could be another bill's of the other side: the intervals do not
/// meet. Never where a host was busy.
fn measured(old: &Row, new: &Row, rule: Rule) -> Comparison {
    let (before, after) = (runs(old), runs(new));
    if before.len() < LEAST_RUNS || after.len() < LEAST_RUNS || rule.hosts == Hosts::Busy {
        return Verdict::Undecided.into();
    }
    let p = p_value(before, after);
    let verdict = match meet(prediction(old), prediction(new)) {
        false if p <= SIGNIFICANT => by_tolerance(cost(old), cost(new), rule.tolerance),
        _ => Verdict::Same,
    };
    Comparison {
        verdict,
        p_value: Some(p),
    }
}

/// Interval of a measured cost; from the runs of bills of earlier versions, which have none.
fn prediction(row: &Row) -> Option<Interval> {
    let stated = row.figures().and_then(|figures| figures.interval);
    stated.or_else(|| Interval::of_another_bill(runs(row)))
}

fn meet(old: Option<Interval>, new: Option<Interval>) -> bool {
    old.zip(new)
        .is_some_and(|(before, after)| after.low <= before.high && after.high >= before.low)
}

fn modelled(old: &Row, new: &Row, tolerance: f64) -> Verdict {
    let interval = |row: &Row| row.figures().and_then(|figures| figures.interval);
    match meet(interval(old), interval(new)) {
        true => Verdict::Same,
        false => by_tolerance(cost(old), cost(new), tolerance),
    }
}
