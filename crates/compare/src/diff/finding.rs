//! Findings that fail a gate: a cost that regressed, a bit that was lost, a crossing more, a row that is gone.

use pagetoll_bill::{self as bill, Row, RowKey, names};
use serde::Serialize;

use super::change::Change;
use super::verdict::Verdict;

names! {
    /// Reason why the new bill fails the comparison.
    pub enum Kind as "finding" {
        /// The cost of a page rose beyond the tolerance.
        Regressed,
        /// It enters the hypervisor more often.
        MoreCrossings,
        /// A check of the new bill failed.
        CheckFailed,
        /// A check that passed in the old bill is inconclusive, or gone.
        CheckLost,
        /// The row is in the old bill only.
        RowMissing,
        /// The row has figures in the old bill only.
        FiguresMissing,
        /// The row was billed on other physical memory, so its costs cannot be compared.
        Layout,
    }
}

impl Kind {
    /// True for findings that `--allow-missing` accepts.
    #[must_use]
    pub const fn is_missing(self) -> bool {
        matches!(self, Self::RowMissing | Self::FiguresMissing)
    }

    pub(super) const fn summary(self) -> &'static str {
        match self {
            Self::Regressed => "costs more",
            Self::MoreCrossings => "enters the hypervisor more often",
            Self::CheckFailed => "a check failed",
            Self::CheckLost => "a check no longer passes",
            Self::RowMissing => "only in the old bill",
            Self::FiguresMissing => "has no figures in the new bill",
            Self::Layout => "was billed on a different memory layout",
        }
    }
}

/// Treatment of rows and figures that the new bill does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They fail the gate.
    Refused,
    /// A missing row is no finding.
    Allowed,
}

/// One thing that fails a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Key of the row in both bills, or in the old one alone.
    #[serde(flatten)]
    pub key: RowKey,
    /// Reason why the row fails the comparison.
    pub kind: Kind,
    /// Old and new figures, in a sentence.
    pub detail: String,
}

impl Finding {
    pub(super) fn new(key: &RowKey, kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            key: key.clone(),
            kind,
            detail: detail.into(),
        }
    }
}

/// Checks of the new bill that failed, whatever the old one says.
pub(super) fn of_checks(key: &RowKey, row: &Row) -> Vec<Finding> {
    let failed = row
        .own_checks()
        .filter(|check| check.verdict == bill::Verdict::Fail);
    failed
        .map(|check| {
            let detail = format!("{}: {} of {}", check.name, check.failed, check.tried);
            Finding::new(key, Kind::CheckFailed, detail)
        })
        .collect()
}

/// Checks that passed before and are gone, or prove nothing, now.
pub(super) fn of_lost_checks(key: &RowKey, old: &Row, new: &Row) -> Vec<Finding> {
    let passed = old
        .own_checks()
        .filter(|check| check.verdict == bill::Verdict::Pass);
    let lost = passed.filter_map(|check| {
        let now = new.own_checks().find(|other| other.name == check.name);
        match now.map(|now| now.verdict) {
            Some(bill::Verdict::Pass | bill::Verdict::Fail) => None,
            Some(bill::Verdict::Inconclusive) => Some(format!("{}: inconclusive", check.name)),
            None => Some(format!("{}: not in the new bill", check.name)),
        }
    });
    lost.map(|detail| Finding::new(key, Kind::CheckLost, detail))
        .collect()
}

/// Findings of a change of cost and crossings.
pub(super) fn of_change(change: &Change, tolerance: f64) -> Vec<Finding> {
    let regressed = (change.verdict == Verdict::Regressed).then(|| {
        Finding::new(
            &change.key,
            Kind::Regressed,
            format!("{:.1} -> {:.1}", change.old, change.new),
        )
    });
    regressed
        .into_iter()
        .chain(more_crossings(change, tolerance))
        .collect()
}

fn more_crossings(change: &Change, tolerance: f64) -> Option<Finding> {
    let crossings = change.crossings_per_page.as_ref()?;
    let (old, new) = (crossings.old?, crossings.new?);
    // Below this, a difference is one crossing more in a bill of 16384 pages: an interrupt, not the mechanism.
    let allowed = (old * tolerance).max(1e-3);
    let detail = || format!("{old:.4} -> {new:.4} a page");
    (new > old + allowed).then(|| Finding::new(&change.key, Kind::MoreCrossings, detail()))
}
