//! A row before and after.

use std::collections::BTreeMap;

use pagetoll_bill::row::Profile;
use pagetoll_bill::{Crossings, Row, RowKey, Toll};
use serde::Serialize;

use super::lie_alike;
use super::verdict::{self, Rule, Verdict};

/// A cost or a count of a page, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerPage {
    /// Name of the toll, the function, or the kind of crossing.
    pub name: String,
    /// Value in the old bill; absent without such a toll.
    pub old: Option<f64>,
    /// Value in the new bill; absent without such a toll.
    pub new: Option<f64>,
}

impl PerPage {
    /// New value minus the old one.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.new.unwrap_or(0.0) - self.old.unwrap_or(0.0)
    }
}

/// A row before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Key of the row in both bills.
    #[serde(flatten)]
    pub key: RowKey,
    /// Old cost of a page.
    pub old: f64,
    /// New cost of a page.
    pub new: f64,
    /// The difference, where it exceeds the tolerance and the spread of the runs.
    pub verdict: Verdict,
    /// Probability of such a difference by chance; for measured costs only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// The tolls, those that changed most first.
    pub tolls: Vec<PerPage>,
    /// Functions, where both bills have profiles, those that changed most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<PerPage>,
    /// Traps and hypercalls of a page together, where both bills counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crossings_per_page: Option<PerPage>,
    /// Traps and hypercalls of a page by kind, those that changed most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<PerPage>,
}

/// Two rows of one key that both have a cost.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) before: &'a Row,
    pub(super) row: &'a Row,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl<'a> Pair<'a> {
    /// `None` if one has no cost.
    pub(super) fn new(before: &'a Row, row: &'a Row) -> Option<Self> {
        Some(Self {
            before,
            row,
            from: before.cost()?,
            to: row.cost()?,
        })
    }
}

impl Change {
    pub(super) fn new(key: RowKey, pair: Pair<'_>, rule: Rule) -> Self {
        let Pair {
            before,
            row,
            from,
            to,
        } = pair;
        let comparison = verdict::compare(before, row, rule);
        let (old, new) = (before.crossings(), row.crossings());
        Self {
            key,
            old: from,
            new: to,
            verdict: comparison.verdict,
            p_value: comparison.p_value,
            tolls: changed(&tolls(before.tolls()), &tolls(row.tolls())),
            functions: functions(before, row),
            crossings_per_page: old.zip(new).map(|(old, new)| PerPage {
                name: "crossings".to_owned(),
                old: Some(old.per_page),
                new: Some(new.per_page),
            }),
            crossings: changed(&kinds(old), &kinds(new)),
        }
    }

    /// Difference as a share of the old cost; not finite if that was 0.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.new - self.old) / self.old
    }

    /// Change between two rows, if it exceeds the rule; `None` as well for rows without a cost, and for different
    /// memory.
    pub(crate) fn step(key: &RowKey, before: &Row, row: &Row, rule: Rule) -> Option<Self> {
        let pair = Pair::new(before, row).filter(|_| lie_alike(before, row))?;
        let verdict = verdict::compare(before, row, rule).verdict;
        let moved = matches!(verdict, Verdict::Regressed | Verdict::Improved);
        moved.then(|| Self::new(key.clone(), pair, rule))
    }
}

/// Functions of both profiles; empty if only one row has one.
fn functions(before: &Row, row: &Row) -> Vec<PerPage> {
    match (&before.profile, &row.profile) {
        (Some(before), Some(row)) => changed(&costs(before), &costs(row)),
        _ => Vec::new(),
    }
}

fn costs(profile: &Profile) -> BTreeMap<&str, f64> {
    let functions = profile.functions.iter();
    by_name(functions.map(|function| (function.name.as_str(), function.cost_per_page)))
}

fn tolls(tolls: &[Toll]) -> BTreeMap<&str, f64> {
    by_name(
        tolls
            .iter()
            .map(|toll| (toll.name.as_str(), toll.cost_per_page())),
    )
}

/// Sums of the costs of each name.
fn by_name<'a>(costs: impl Iterator<Item = (&'a str, f64)>) -> BTreeMap<&'a str, f64> {
    let mut named = BTreeMap::new();
    for (name, cost) in costs {
        *named.entry(name).or_default() += cost;
    }
    named
}

fn kinds(crossings: Option<&Crossings>) -> BTreeMap<&str, f64> {
    let kinds = crossings.iter().flat_map(|crossings| &crossings.by_kind);
    kinds.map(|(kind, count)| (kind.as_str(), *count)).collect()
}

/// All names of both sides, those that changed most first.
fn changed(old: &BTreeMap<&str, f64>, new: &BTreeMap<&str, f64>) -> Vec<PerPage> {
    let only_old = old.keys().filter(|name| !new.contains_key(*name));
    let mut changes: Vec<_> = new
        .keys()
        .chain(only_old)
        .map(|name| PerPage {
            name: (*name).to_owned(),
            old: old.get(name).copied(),
            new: new.get(name).copied(),
        })
        .collect();
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    changes
}
