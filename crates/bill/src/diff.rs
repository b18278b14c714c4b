//! Two bills of one route, compared: what got dearer, what cheaper, and which toll it was.
//!
//! Exact counts are compared with a tolerance, measured costs by a permutation test of their runs and a noise floor,
//! modelled ones by their intervals. Pure: no I/O, and the same bills give the same comparison.

mod permutation;
mod verdict;

use serde::Serialize;
use thiserror::Error;

use crate::bill::{Backend, Bill, Evidence, Row, System, Toll, Unit};
use crate::route::Route;

pub use permutation::p_value;
pub use verdict::{LEAST_RUNS, SIGNIFICANT, Verdict};

/// Why two bills cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiffError {
    /// They are of different routes.
    #[error("bills of different routes: {old} and {new}; expected two of one route")]
    Routes {
        /// The old bill's.
        old: Route,
        /// The new bill's.
        new: Route,
    },
    /// Their costs are not counted in the same unit.
    #[error("bills in different units: {} and {}; expected two in one unit", .old.name(), .new.name())]
    Units {
        /// The old bill's.
        old: Unit,
        /// The new bill's.
        new: Unit,
    },
    /// Their costs cannot be trusted alike: a model says nothing about what was counted.
    #[error("bills of different backends: {old} and {new}; expected two of one backend")]
    Backends {
        /// The old bill's.
        old: Backend,
        /// The new bill's.
        new: Backend,
    },
    /// No row of one has a figure in the other: that nothing got dearer would be true of any two bills.
    #[error(
        "bills without a row in common; expected the same operations and shapes, and the same kernel where a bill has several"
    )]
    NothingInCommon,
}

/// What makes two rows the same line of their bills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowKey {
    /// What was done.
    pub operation: String,
    /// By which mechanism.
    pub mechanism: String,
    /// Pages at once.
    pub batch: u32,
    /// On which system.
    pub system: System,
    /// The shape of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio: Option<String>,
    /// The kernel, where one of the bills has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// A toll before and after, per page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TollChange {
    /// What is paid for.
    pub name: String,
    /// What a page paid; nothing where the old bill has no such toll.
    pub old: Option<f64>,
    /// What a page pays; nothing where the new bill has no such toll.
    pub new: Option<f64>,
}

impl TollChange {
    /// How much more a page pays.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.new.unwrap_or(0.0) - self.old.unwrap_or(0.0)
    }
}

/// A row before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which row.
    #[serde(flatten)]
    pub key: RowKey,
    /// What a page cost.
    pub old: f64,
    /// What a page costs.
    pub new: f64,
    /// What is to be made of it.
    pub verdict: Verdict,
    /// How likely such a difference is by chance; of measured costs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The tolls, those that changed most first.
    pub tolls: Vec<TollChange>,
}

/// A row that cannot be compared, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unmatched {
    /// Which row.
    #[serde(flatten)]
    pub key: RowKey,
    /// Why not.
    pub reason: String,
}

/// Two bills, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The version of this form.
    pub schema: &'static str,
    /// The route.
    pub route: Route,
    /// What costs are counted in.
    pub unit: Unit,
    /// How far they can be trusted.
    pub evidence: Evidence,
    /// Difference below which exact counts are equal, as a share.
    pub tolerance: f64,
    /// Rows of both bills, in the new one's order.
    pub changes: Vec<Change>,
    /// Rows of one bill only, or without figures in one.
    pub unmatched: Vec<Unmatched>,
}

/// The version of the JSON form.
const SCHEMA: &str = "pagetoll.diff/1";

impl Diff {
    /// Compares two bills; `tolerance` is a share, such as 0.005.
    ///
    /// # Errors
    /// Bills that say nothing about one another.
    pub fn of(old: &Bill, new: &Bill, tolerance: f64) -> Result<Self, DiffError> {
        check(old, new)?;
        let keyed = Keyed {
            by_kernel: several_kernels(old) || several_kernels(new),
        };
        let mut diff = Self {
            schema: SCHEMA,
            route: new.route,
            unit: new.unit,
            evidence: new.evidence,
            tolerance,
            changes: Vec::new(),
            unmatched: Vec::new(),
        };
        for row in &new.rows {
            diff.take(row, old, keyed);
        }
        for row in &old.rows {
            let key = keyed.key(row);
            if keyed.find(new, &key).is_none() {
                diff.leave(key, "only in the old bill");
            }
        }
        if diff.changes.is_empty() {
            return Err(DiffError::NothingInCommon);
        }
        Ok(diff)
    }

    /// The rows with that verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.verdict == verdict)
    }

    fn take(&mut self, row: &Row, old: &Bill, keyed: Keyed) {
        let key = keyed.key(row);
        let Some(before) = keyed.find(old, &key) else {
            return self.leave(key, "only in the new bill");
        };
        match (before.cost_per_page, row.cost_per_page) {
            (Some(from), Some(to)) => {
                let (verdict, p_value) = verdict::of((before, row), self.evidence, self.tolerance);
                self.changes.push(Change {
                    key,
                    old: from,
                    new: to,
                    verdict,
                    p_value,
                    tolls: tolls(&before.tolls, &row.tolls),
                });
            }
            (None, Some(_)) => self.leave(key, "has no figures in the old bill"),
            (Some(_), None) => self.leave(key, "has no figures in the new bill"),
            (None, None) => self.leave(key, "has no figures in either bill"),
        }
    }

    fn leave(&mut self, key: RowKey, reason: &str) {
        self.unmatched.push(Unmatched {
            key,
            reason: reason.to_owned(),
        });
    }
}

fn check(old: &Bill, new: &Bill) -> Result<(), DiffError> {
    if old.route != new.route {
        return Err(DiffError::Routes {
            old: old.route,
            new: new.route,
        });
    }
    if old.unit != new.unit {
        return Err(DiffError::Units {
            old: old.unit,
            new: new.unit,
        });
    }
    if old.backend != new.backend || old.evidence != new.evidence {
        return Err(DiffError::Backends {
            old: old.backend,
            new: new.backend,
        });
    }
    Ok(())
}

fn several_kernels(bill: &Bill) -> bool {
    let mut kernels = bill.rows.iter().map(|row| &row.kernel);
    let first = kernels.next();
    kernels.any(|kernel| Some(kernel) != first)
}

/// How rows are told apart. Two kernels are compared with one another where each bill has one only.
#[derive(Clone, Copy)]
struct Keyed {
    by_kernel: bool,
}

impl Keyed {
    fn key(self, row: &Row) -> RowKey {
        RowKey {
            operation: row.operation.clone(),
            mechanism: row.mechanism.clone(),
            batch: row.batch,
            system: row.system,
            folio: row.folio.clone(),
            kernel: row.kernel.clone().filter(|_| self.by_kernel),
        }
    }

    fn find<'a>(self, bill: &'a Bill, key: &RowKey) -> Option<&'a Row> {
        bill.rows.iter().find(|row| self.key(row) == *key)
    }
}

/// All tolls of both rows, those that changed most first.
fn tolls(old: &[Toll], new: &[Toll]) -> Vec<TollChange> {
    let cost = |tolls: &[Toll], name: &str| {
        let found = tolls.iter().find(|toll| toll.name == name);
        found.map(Toll::cost_per_page)
    };
    let mut names: Vec<&str> = Vec::new();
    for toll in new.iter().chain(old) {
        if !names.contains(&toll.name.as_str()) {
            names.push(&toll.name);
        }
    }
    let mut changes: Vec<_> = names
        .into_iter()
        .map(|name| TollChange {
            name: name.to_owned(),
            old: cost(old, name),
            new: cost(new, name),
        })
        .collect();
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    changes
}

#[cfg(test)]
mod tests;
