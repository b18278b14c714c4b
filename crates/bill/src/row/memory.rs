//! What memory a row was billed on, and what others published of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What physical memory the pages of a row were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Runs of physically contiguous pages.
    pub runs: u64,
    /// Folios; a page of its own is one.
    pub folios: u64,
    /// Pages of 4 KiB of the largest folio.
    pub largest_folio: u64,
}

/// A published rate beside a modelled one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRate {
    /// Pages of all vCPUs together in a second.
    pub pages_per_second: f64,
    /// Whether the model was calibrated to it: then it is no prediction.
    pub fitted: bool,
    /// What the universal scalability law makes of the calibration points; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<f64>,
}
