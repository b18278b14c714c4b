//! Figures of a migrated guest beside the cost of a page.

use serde::{Deserialize, Serialize};

use crate::names::names;

/// A time of migrations, and the pages that they sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Migrated {
    /// Nanoseconds of this time: the median over the runs.
    pub median: f64,
    /// Nanoseconds of it as composed from the bills of dirty tracking and of demand paging, and a guest that writes nothing;
    /// absent where one of these has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composed: Option<f64>,
    /// Pages on the way, on the row of the whole migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// Longest time by which one burst of writes, or the guest's stop, kept the guest from its work, in nanoseconds, of all runs;
    /// on the row of the guest's stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<f64>,
}

/// Pages that a migration sent: medians over the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sent {
    /// All of them, each as often as it was sent.
    pub pages: f64,
    /// Pages that were sent before, and again since the guest had written them.
    pub again: f64,
    /// Pages that the guest waited for at the destination.
    pub waited_for: f64,
    /// All of them as composed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composed: Option<f64>,
    /// Rounds of the run in the middle, in the order of time.
    pub rounds: Vec<Round>,
}

/// A round of a migration: pages that are sent one after another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Round {
    /// Nanoseconds since the order to migrate.
    pub begun: f64,
    /// Nanoseconds since the order to migrate.
    pub ended: f64,
    /// Pages that were sent.
    pub pages: u64,
    /// Phase of the migration.
    pub phase: Phase,
}

names! {
    /// Phase of a migration.
    pub enum Phase as "phase" {
        /// The guest runs at the source.
        Precopy,
        /// The guest is stopped.
        Stopped,
        /// The guest runs at the destination.
        Postcopy,
    }
}
