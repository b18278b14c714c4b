//! Findings that fail a gate: a cost that regressed, a lost bit, an additional crossing, a missing row.

use pagetoll_bill::{Row, RowKey, Verdict, names};
use serde::Serialize;

use super::change::Change;
use super::verdict::{Hosts, Rule, Verdict as Judgement};

names! {
    /// Kind of a finding.
    pub enum Kind as "finding" {
        /// The cost of a page rose beyond the tolerance.
        Regressed,
        /// The cost spreads too far to be compared.
        Unsteady,
        /// A page enters the hypervisor more often.
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
            Self::Unsteady => "spreads too far to be compared",
            Self::MoreCrossings => "enters the hypervisor more often",
            Self::CheckFailed => "a check failed",
            Self::CheckLost => "a check no longer passes",
            Self::RowMissing => "only in the old bill",
            Self::FiguresMissing => "has no figures in the new bill",
            Self::Layout => "was billed on a different memory layout",
        }
    }
}

/// Treatment of rows and figures that the new bill lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRows {
    /// Missing rows fail the gate.
    Refused,
    /// Missing rows are ignored.
    Allowed,
}

/// A finding that fails a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Key of the row in both bills, or in the old one alone.
    #[serde(flatten)]
    pub key: RowKey,
    /// Kind of the finding.
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

/// Failed checks of the new bill, also if they failed in the old one.
pub(super) fn failed_checks(key: &RowKey, row: &Row) -> Vec<Finding> {
    let failed = row
        .own_checks()
        .filter(|check| check.verdict == Verdict::Fail);
    failed
        .map(|check| {
            let detail = format!("{}: {} of {}", check.name, check.failed, check.tried);
            Finding::new(key, Kind::CheckFailed, detail)
        })
        .collect()
}

/// Checks that passed before and are gone, or inconclusive, now.
pub(super) fn lost_checks(key: &RowKey, old: &Row, new: &Row) -> Vec<Finding> {
    let passed = old
        .own_checks()
        .filter(|check| check.verdict == Verdict::Pass);
    let lost = passed.filter_map(|check| {
        let now = new.own_checks().find(|other| other.name == check.name);
        match now.map(|now| now.verdict) {
            Some(Verdict::Pass | Verdict::Fail) => None,
            Some(Verdict::Inconclusive) => Some(format!("{}: inconclusive", check.name)),
            None => Some(format!("{}: not in the new bill", check.name)),
        }
    });
    lost.map(|detail| Finding::new(key, Kind::CheckLost, detail))
        .collect()
}

/// Findings of a change: a higher cost, more crossings. On a busy host threads race in another order, and crossings with them.
pub(super) fn regressions(change: &Change, rule: Rule) -> Vec<Finding> {
    let regressed = (change.verdict == Judgement::Regressed).then(|| {
        Finding::new(
            &change.key,
            Kind::Regressed,
            format!("{:.1} -> {:.1}", change.old, change.new),
        )
    });
    let unsteady = (change.verdict == Judgement::Unsteady).then(|| {
        let kind = Kind::Unsteady;
        Finding::new(&change.key, kind, kind.summary())
    });
    let crossings = change.crossings_per_page.as_ref();
    let crossings = crossings.filter(|_| rule.hosts == Hosts::Idle);
    let more_crossings = crossings.and_then(|crossings| {
        let (old, new) = (crossings.old?, crossings.new?);
        // Below this, a difference is one crossing more in a bill of 16384 pages: an interrupt, not the mechanism.
        let allowed = (old * rule.tolerance).max(1e-3);
        let detail = || format!("{old:.4} -> {new:.4} a page");
        (new > old + allowed).then(|| Finding::new(&change.key, Kind::MoreCrossings, detail()))
    });
    regressed
        .into_iter()
        .chain(unsteady)
        .chain(more_crossings)
        .collect()
}
