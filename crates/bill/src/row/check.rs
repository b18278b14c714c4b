//! Safety checks and their verdicts.
//!
//! A check that could not fail proves nothing: each that claims safety names how often its negative control failed.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Result of a check.
    pub enum Verdict as "verdict" {
        /// Nothing failed, and the negative control did.
        Pass,
        /// Something failed.
        Fail,
        /// Nothing failed, but neither did the negative control: the check proves nothing here.
        Inconclusive,
    }
}

/// One check of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Property that was checked, such as `smp-lost-dirty`.
    pub name: String,
    /// Number of pages that were tried.
    pub tried: u64,
    /// Number of those that failed.
    pub failed: u64,
    /// Number of pages that failed in the negative controls of the same run; absent where the check needs none,
    /// because each page is compared with the known answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_failed: Option<u64>,
    /// The verdict that follows from the numbers.
    pub verdict: Verdict,
    /// Day in UTC, such as `2026-11-26`, of the race that gave these numbers, where it was kept from an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Check {
    /// The name of the check that a device finds every page where it belongs although memory is not contiguous.
    pub const CONTIGUITY: &'static str = "contiguity";

    /// A check whose every page is compared with the known answer.
    #[must_use]
    pub fn against_known(name: &str, tried: u64, failed: u64) -> Self {
        let verdict = match (tried, failed) {
            (0, _) => Verdict::Inconclusive,
            (_, 0) => Verdict::Pass,
            _ => Verdict::Fail,
        };
        Self {
            name: name.to_owned(),
            tried,
            failed,
            control_failed: None,
            verdict,
            kept: None,
        }
    }

    /// A check that only means something when a negative control failed in the same run.
    #[must_use]
    pub fn against_control(name: &str, tried: u64, failed: u64, control_failed: u64) -> Self {
        let verdict = match (tried, failed, control_failed) {
            (_, 1.., _) => Verdict::Fail,
            (0, _, _) | (_, _, 0) => Verdict::Inconclusive,
            _ => Verdict::Pass,
        };
        Self {
            name: name.to_owned(),
            tried,
            failed,
            control_failed: Some(control_failed),
            verdict,
            kept: None,
        }
    }
}

impl Check {
    /// A check of a mechanism that is itself a negative control: it can only fail, or show nothing.
    #[must_use]
    pub fn of_control(name: &str, tried: u64, failed: u64) -> Self {
        Self {
            name: name.to_owned(),
            tried,
            failed,
            control_failed: None,
            verdict: if failed > 0 {
                Verdict::Fail
            } else {
                Verdict::Inconclusive
            },
            kept: None,
        }
    }

    /// This check of a race on a day.
    #[must_use]
    pub fn kept_from(self, day: Option<String>) -> Self {
        Self { kept: day, ..self }
    }

    /// Whether the check proves something only where a mechanism that is known to be wrong fails it.
    #[must_use]
    pub fn needs_control(&self) -> bool {
        self.is_race() || self.name == Self::CONTIGUITY
    }

    /// The verdicts that these numbers allow.
    #[must_use]
    pub fn allows(&self, verdict: Verdict) -> bool {
        match (self.failed, self.tried, self.control_failed) {
            (1.., _, _) => verdict == Verdict::Fail,
            (0, 0, _) | (0, _, Some(0)) => verdict == Verdict::Inconclusive,
            (0, _, _) => verdict != Verdict::Fail,
        }
    }

    /// True for a race between CPUs, which mechanisms that are not safe on SMP are expected to fail.
    #[must_use]
    pub fn is_race(&self) -> bool {
        self.name.starts_with("smp-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_never_passes() {
        let verdict = |failed| Check::of_control("smp-lost-dirty", 50_000, failed).verdict;
        assert_eq!(
            (verdict(0), verdict(72)),
            (Verdict::Inconclusive, Verdict::Fail)
        );
    }

    #[test]
    fn without_a_failing_control_nothing_passes() {
        let verdict = |tried, failed, control| {
            Check::against_control("smp-lost-dirty", tried, failed, control).verdict
        };
        assert_eq!(verdict(50_000, 0, 746), Verdict::Pass);
        assert_eq!(verdict(50_000, 0, 0), Verdict::Inconclusive);
        assert_eq!(verdict(50_000, 1, 0), Verdict::Fail);
        assert_eq!(verdict(0, 0, 746), Verdict::Inconclusive);
    }

    #[test]
    fn a_check_that_tried_nothing_does_not_pass() {
        let verdict = |tried, failed| Check::against_known("frame", tried, failed).verdict;
        assert_eq!(verdict(16_384, 0), Verdict::Pass);
        assert_eq!(verdict(16_384, 3), Verdict::Fail);
        assert_eq!(verdict(0, 0), Verdict::Inconclusive);
    }
}
