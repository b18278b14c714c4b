//! Memory that a row was billed on, and rates that others published.

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize};

/// Layout of the pages of a row in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layout {
    /// Runs of physically contiguous pages.
    pub runs: u64,
    /// Folios; a page of its own is one.
    pub folios: u64,
    /// Pages of 4 KiB of the largest folio.
    pub largest_folio: u64,
}

/// Pages to a run by which costs are not moved: a run costs some thousand instructions, the least that a page does is 25.
const PAGES_OF_A_RUN: u64 = 1 << 15;

impl Layout {
    /// True where so many pages cost the same on both layouts, by all that is known.
    #[must_use]
    pub fn costs_like(self, other: Self, pages: Pages) -> bool {
        let alike = |layout: Self| (layout.folios, layout.largest_folio);
        alike(self) == alike(other)
            && self.runs.abs_diff(other.runs) <= pages.get() / PAGES_OF_A_RUN
    }
}

/// A published rate beside a modelled one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedRate {
    /// Pages of all vCPUs together in a second.
    pub pages_per_second: f64,
    /// True where the model was calibrated to it: then it is no prediction.
    pub fitted: bool,
    /// Rate by the universal scalability law through the calibration points; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<f64>,
}

/// Relative error of a model, whichever way: 0 when it meets the figure, 1 when one is twice the other.
#[must_use]
pub fn error_of(modelled: f64, published: f64) -> f64 {
    (modelled / published).max(published / modelled) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_as_far_off() {
        assert_eq!(error_of(4.0, 2.0), 1.0);
        assert_eq!(error_of(2.0, 4.0), 1.0);
        assert_eq!(error_of(3.0, 3.0), 0.0);
    }
}
