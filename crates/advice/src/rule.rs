//! A rule, as `rules/NAME.toml` has it.

use pagetoll_bill::Evidence;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::facts::Requirements;

/// A remedy, its conditions and its gain.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The name of its file.
    pub id: String,
    /// The problem, in one line.
    pub title: String,
    /// Scope of the conditions.
    #[serde(default)]
    pub scope: Scope,
    /// Conditions on a capture, all of which must hold. A rule without any applies to hosts.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// Requirements on the recorded machine, or on this host.
    #[serde(default)]
    pub machine: Requirements,
    /// Further requirements on a host, for the rule to be of interest before anything was recorded.
    #[serde(default)]
    pub host: Requirements,
    /// Command that records what the rule needs to be decided.
    pub record: Option<String>,
    /// Remedy.
    pub act: String,
    /// Cases in which the remedy is wrong or gives less.
    pub not_when: String,
    /// Gain of the remedy.
    pub gain: Gain,
}

/// Parties whose items are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each vCPU's or thread's apart.
    #[default]
    Party,
    /// All of the capture together.
    Capture,
}

/// Gain of a rule, by a bill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gain {
    /// Unit of work of a figure, such as `page-table entry cleared`.
    pub each: String,
    /// Unit of the figure: the bill's unit, or that of `field`.
    pub unit: String,
    /// JSON pointer of the figure in a row of the bill; absent for the row's cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Evidence of the figures.
    pub evidence: Evidence,
    /// Command that makes the bill.
    pub command: String,
    /// Row without the remedy.
    pub before: BilledRow,
    /// Row with the remedy.
    pub after: BilledRow,
}

/// A figure of a bill that is kept in this repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BilledRow {
    /// The figure, rounded as it is printed.
    pub figure: f64,
    /// The bill's file.
    pub bill: String,
    /// Keys and values that identify the row in its bill.
    pub row: toml::Table,
}

impl Gain {
    /// Ratio of the figures, before to after.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.before.figure / self.after.figure
    }
}
