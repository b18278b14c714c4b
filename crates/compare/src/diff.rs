//! Two bills of one route, compared: what regressed, what improved, which toll it was, and what fails a gate.
//!
//! Exact counts are compared with a tolerance, modelled costs by their intervals, measured ones by their intervals and a
//! permutation test of their runs; where a host was busy, nothing that is measured is decided. Pure: the same bills give the same comparison, and a bill compared with itself
//! has no finding unless a check of its own failed.

mod change;
mod comparable;
mod finding;
mod permutation;
mod verdict;

use std::collections::HashMap;

use pagetoll_bill::{Bill, Evidence, Route, Row, RowKey, Unit};
use serde::Serialize;

pub use change::{Change, PerPage};
pub use comparable::DiffError;
pub use finding::{Finding, Kind, MissingRows};
pub use permutation::p_value;
pub use verdict::{Hosts, LEAST_RUNS, Rule, SIGNIFICANT, Verdict};

/// The version of the JSON form.
const SCHEMA: &str = "pagetoll.diff/1";

/// A row that cannot be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnmatchedRow {
    /// Key of the row in both bills.
    #[serde(flatten)]
    pub key: RowKey,
    /// Reason.
    pub reason: &'static str,
}

/// The comparison of an old and a new bill, row by row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The version of this form.
    pub schema: &'static str,
    /// The route of both bills.
    pub route: Route,
    /// Unit of costs.
    pub unit: Unit,
    /// Evidence of the figures.
    pub evidence: Evidence,
    /// Difference below which exact counts are equal, as a share.
    pub tolerance: f64,
    /// Hosts on which the bills were measured.
    #[serde(skip)]
    hosts: Hosts,
    /// Rows of both bills, in the new one's order.
    pub changes: Vec<Change>,
    /// Rows of one bill only, or without figures in one.
    pub unmatched: Vec<UnmatchedRow>,
    /// Findings that fail a gate.
    pub findings: Vec<Finding>,
}

impl Diff {
    /// Compares two bills; `tolerance` is a share, such as 0.005.
    ///
    /// # Errors
    /// Bills that cannot be compared: of other routes, units, backends, orders, or without a row in common.
    pub fn new(old: &Bill, new: &Bill, tolerance: f64) -> Result<Self, DiffError> {
        comparable::check(old, new)?;
        let by_kernel = several_kernels(old) || several_kernels(new);
        let (before, after) = (RowIndex::new(old, by_kernel), RowIndex::new(new, by_kernel));
        let mut diff = Self {
            schema: SCHEMA,
            route: new.route,
            unit: new.unit,
            evidence: new.evidence,
            tolerance,
            hosts: Hosts::new([old, new]),
            changes: Vec::new(),
            unmatched: Vec::new(),
            findings: Vec::new(),
        };
        for row in &new.rows {
            diff.take(row, &before);
        }
        for row in &old.rows {
            let key = after.key(row);
            if after.find(&key).is_none() {
                diff.leave(key, Kind::RowMissing);
            }
        }
        if diff.changes.is_empty() {
            return Err(DiffError::NothingInCommon);
        }
        Ok(diff)
    }

    /// The rows with that verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        let changes = self.changes.iter();
        changes.filter(move |change| change.verdict == verdict)
    }

    /// Findings that fail a gate; missing rows and figures are among them unless they are allowed.
    pub fn failures(&self, missing: MissingRows) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings
            .filter(move |finding| missing == MissingRows::Refused || !finding.kind.is_missing())
    }

    fn take(&mut self, row: &Row, old: &RowIndex<'_>) {
        let key = old.key(row);
        self.findings.extend(finding::failed_checks(&key, row));
        let Some(before) = old.find(&key) else {
            return self.unmatched.push(UnmatchedRow {
                key,
                reason: "only in the new bill",
            });
        };
        self.findings
            .extend(finding::lost_checks(&key, before, row));
        match change::Pair::new(before, row) {
            Some(_) if !lie_alike(before, row) => self.leave(key, Kind::Layout),
            Some(pair) => {
                let change = Change::new(key, pair, self.rule());
                self.findings
                    .extend(finding::regressions(&change, self.rule()));
                self.changes.push(change);
            }
            None if before.cost().is_some() => self.leave(key, Kind::FiguresMissing),
            None => self.unmatched.push(UnmatchedRow {
                key,
                reason: match row.cost() {
                    Some(_) => "has no figures in the old bill",
                    None => "has no figures in either bill",
                },
            }),
        }
    }

    /// Rule by which rows are compared.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        Rule {
            evidence: self.evidence,
            tolerance: self.tolerance,
            hosts: self.hosts,
        }
    }

    /// Adds a row that cannot be compared, and fails a gate.
    fn leave(&mut self, key: RowKey, kind: Kind) {
        self.findings.push(Finding::new(&key, kind, kind.summary()));
        self.unmatched.push(UnmatchedRow {
            key,
            reason: kind.summary(),
        });
    }
}

/// True if the memory of both rows lay so that costs can be compared.
pub(crate) fn lie_alike(before: &Row, row: &Row) -> bool {
    match (before.layout, row.layout) {
        (Some(before), Some(layout)) => before.costs_like(layout, row.pages),
        (before, layout) => before == layout,
    }
}

/// True if rows of the bill differ in their kernel.
pub(crate) fn several_kernels(bill: &Bill) -> bool {
    let mut kernels = bill.rows.iter().map(|row| &row.key.kernel);
    let first = kernels.next();
    kernels.any(|kernel| Some(kernel) != first)
}

/// Rows of a bill by their keys. Where each bill has one kernel only, kernels are compared with one another: the kernel
/// is then not part of the key.
struct RowIndex<'a> {
    by_kernel: bool,
    rows: HashMap<RowKey, &'a Row>,
}

impl<'a> RowIndex<'a> {
    fn new(bill: &'a Bill, by_kernel: bool) -> Self {
        let mut keyed = Self {
            by_kernel,
            rows: HashMap::with_capacity(bill.rows.len()),
        };
        for row in &bill.rows {
            keyed.rows.insert(keyed.key(row), row);
        }
        keyed
    }

    fn key(&self, row: &Row) -> RowKey {
        if self.by_kernel {
            row.key.clone()
        } else {
            row.key.on_any_kernel()
        }
    }

    fn find(&self, key: &RowKey) -> Option<&'a Row> {
        self.rows.get(key).copied()
    }
}

#[cfg(test)]
mod tests;
