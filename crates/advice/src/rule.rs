//! A rule, as `rules/NAME.toml` has it.

use pagetoll_bill::Evidence;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::facts::Requirements;

/// When to do what, and what that gives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The name of its file.
    pub id: String,
    /// What is the matter.
    pub title: String,
    /// Whose items its conditions count.
    #[serde(default)]
    pub scope: Scope,
    /// What a capture has to show, all of it. A rule without any is one of hosts.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// What the machine has to be that was recorded, or that is looked at.
    #[serde(default)]
    pub machine: Requirements,
    /// What else a host has to be for the rule to be of interest before anything was recorded.
    #[serde(default)]
    pub host: Requirements,
    /// How to record what shows whether it applies.
    pub record: Option<String>,
    /// What to do.
    pub act: String,
    /// When that is wrong or gives less.
    pub not_when: String,
    /// What it gives.
    pub gain: Gain,
}

/// Whose items conditions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each vCPU's or thread's apart.
    #[default]
    Party,
    /// All of the capture together.
    Capture,
}

/// What a bill says of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gain {
    /// What a figure is for each of, such as `page-table entry cleared`.
    pub each: String,
    /// What is counted: a bill's unit, or what `field` names.
    pub unit: String,
    /// Where a row of the bill has the figure, as a JSON pointer; absent for its cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How far the figures can be trusted.
    pub evidence: Evidence,
    /// The order that gives them.
    pub command: String,
    /// As it is.
    pub before: Billed,
    /// With what the rule says.
    pub after: Billed,
}

/// A figure of a bill that is kept in this repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Billed {
    /// The figure, rounded as it is printed.
    pub figure: f64,
    /// The bill's file.
    pub bill: String,
    /// What the row has that no other of the bill has.
    pub row: toml::Table,
}

impl Gain {
    /// How many times less.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.before.figure / self.after.figure
    }
}
