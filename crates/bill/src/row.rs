//! One line of a bill: which line it is, what it cost, and what was checked.

mod check;
pub mod crossing;
mod discarded;
mod figures;
mod form;
mod itemise;
mod key;
mod memory;
mod migrated;
mod prediction;
pub mod profile;
mod restored;
mod selection;
mod spread;
mod toll_name;
mod tracked;

use std::collections::BTreeMap;
use std::fmt;

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize};

use crate::kinds::Role;

pub use check::{Check, Verdict};
pub use discarded::{Cleared, Discarded, Found, Frees};
pub use figures::{Crossings, Figures, Interval, Rate, Toll, median};
pub use form::RowError;
pub(crate) use form::RowForm;
pub use itemise::{Baselines, Measured, itemise, itemise_calls};
pub use key::{Backing, Baseline, Folio, Method, Operation, PageCache, RowKey};
pub use memory::{Layout, PublishedRate, error_of};
pub use migrated::{Migrated, Phase, Round, Sent};
pub use profile::{Part, Profile};
pub use restored::{KeptMemory, Moment, Restored};
pub use selection::{NoSuchRow, RowSelection};
pub use spread::Spread;
pub use toll_name::{Payer, TollKind, TollName};
pub use tracked::{Coverage, EventCoverage, PageEvent, Rewriting, Span, Tracked};

/// The reason why there is none of something: figures of a row, a program, a guest. Reported, and no error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable(pub String);

/// A value, or the reason why there is none.
pub type Available<T> = Result<T, Unavailable>;

impl From<String> for Unavailable {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for Unavailable {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Identity of the row: no other of the bill has the same key.
    pub key: RowKey,
    /// Pages, or operations, that were billed.
    pub pages: Pages,
    /// Layout of the pages in physical memory.
    pub layout: Option<Layout>,
    /// CPUs that the threads ran on.
    pub placement: Option<String>,
    /// Pages of 4 KiB by the size of the page that they were part of in the end: `4K`, `2M`, `1G`.
    pub folios: BTreeMap<String, u64>,
    /// Pages in memory over time, in a run of its own that no other figure is of.
    pub resident: Vec<Moment>,
    /// Reports of dirty tracking, on the row of its harvest.
    pub tracked: Option<Tracked>,
    /// Rounds over time, on the row of a guest that rewrites tracked pages.
    pub rewriting: Option<Rewriting>,
    /// Rate that others measured in the same setting.
    pub published: Option<PublishedRate>,
    /// What it cost, or why nothing is known.
    pub result: Available<Figures>,
    /// What it executed, where that was counted.
    pub profile: Option<Profile>,
    /// Safety checks of the mechanism, in the order in which they ran.
    pub checks: Vec<Check>,
}

impl Row {
    /// A row with these figures, and nothing else said of it.
    #[must_use]
    pub fn new(key: RowKey, pages: Pages, result: Available<Figures>) -> Self {
        Self {
            key,
            pages,
            layout: None,
            placement: None,
            folios: BTreeMap::new(),
            resident: Vec::new(),
            tracked: None,
            rewriting: None,
            published: None,
            result,
            profile: None,
            checks: Vec::new(),
        }
    }

    /// A row without figures, and why.
    #[must_use]
    pub fn unavailable(key: RowKey, pages: Pages, reason: impl Into<String>) -> Self {
        Self::new(key, pages, Err(Unavailable(reason.into())))
    }

    /// Replaces the checks.
    #[must_use]
    pub fn with_checks(self, checks: Vec<Check>) -> Self {
        Self { checks, ..self }
    }

    /// Role of its method on the route.
    #[must_use]
    pub fn role(&self) -> Role {
        self.key.method.role()
    }

    /// The figures, where there are any.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        self.result.as_ref().ok()
    }

    /// The figures, to be completed.
    pub fn figures_mut(&mut self) -> Option<&mut Figures> {
        self.result.as_mut().ok()
    }

    /// The cost of one page in the bill's unit.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        self.figures().map(|figures| figures.cost_per_page)
    }

    /// The rates of an interval of costs, which are nanoseconds of one of the vCPUs; of what may cost nothing there are none.
    #[must_use]
    pub fn interval_of_rates(&self) -> Option<Interval> {
        let costs = self.figures()?.interval;
        let costs = costs.filter(|costs| costs.low > 0.0 && costs.high > 0.0)?;
        let vcpus = f64::from(self.key.vcpus.unwrap_or(1));
        let rate = |nanos: f64| vcpus * 1e9 / nanos;
        Some(Interval {
            low: rate(costs.high),
            high: rate(costs.low),
        })
    }

    /// The cost, item by item; nothing where it was not itemised.
    #[must_use]
    pub fn tolls(&self) -> &[Toll] {
        self.figures().map_or(&[], |figures| &figures.tolls)
    }

    /// Entries into the hypervisor; `None` where they were not counted.
    #[must_use]
    pub fn crossings(&self) -> Option<&Crossings> {
        self.figures()?.crossings.as_ref()
    }

    /// Reason for having no figures.
    #[must_use]
    pub fn why_unavailable(&self) -> Option<&str> {
        self.result.as_ref().err().map(|reason| reason.0.as_str())
    }

    /// False where a race lost something, true where all races passed; `None` without races or conclusive controls.
    #[must_use]
    pub fn smp_safe(&self) -> Option<bool> {
        let races = || self.checks.iter().filter(|check| check.is_race());
        if races().any(|check| check.verdict == Verdict::Fail) {
            return Some(false);
        }
        let passed = races().all(|check| check.verdict == Verdict::Pass);
        (passed && races().next().is_some()).then_some(true)
    }

    /// The checks that say something of the row itself, without those that it exists to fail.
    pub fn own_checks(&self) -> impl Iterator<Item = &Check> {
        let checks = self.checks.iter();
        checks.filter(|check| !self.is_control_of(check))
    }

    /// True for a check that this row exists to fail: a race of a mechanism that is a negative control.
    #[must_use]
    pub fn is_control_of(&self, check: &Check) -> bool {
        check.needs_control() && !self.key.method.is_smp_safe()
    }
}
