//! The flat JSON form of a row, and what a row that is read must hold to.

use std::collections::BTreeMap;

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::check::{Check, Verdict};
use super::{
    Backing, Crossings, Discarded, Figures, Folio, Interval, Layout, Method, Migrated, Moment,
    Operation, PageCache, Profile, PublishedRate, Rate, Restored, Rewriting, Row, RowKey, Toll,
    Tracked, Unavailable,
};
use crate::kinds::{Role, System};
use crate::names::UnknownName;
use crate::route::Route;

/// One line of a bill, as JSON has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Row"))]
pub(crate) struct RowForm {
    /// Operation on the pages.
    operation: Operation,
    /// The mechanism's name; `kernel` where the kernel chose; a baseline's name.
    mechanism: String,
    /// Role of the mechanism on its route.
    role: Role,
    /// Pages taken at once; 1 where there is no batch.
    batch: u32,
    /// The system that it was billed on.
    system: System,
    /// The kernel, where a bill has several, pagetoll built it, or the route depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// The shape of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folio: Option<Folio>,
    /// Layout of that memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<Layout>,
    /// vCPUs that ran at once; absent on routes that have one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vcpus: Option<u32>,
    /// Threads that read faults; absent where there is no userfaultfd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readers: Option<u32>,
    /// The privilege level that the guest ran at: 0 or 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ring: Option<u8>,
    /// The page cache of the image; absent on routes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache: Option<PageCache>,
    /// Guests that were restored from the image at once; absent on routes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clones: Option<u32>,
    /// Backing of the guest's memory; absent on routes of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backing: Option<Backing>,
    /// Pages of all vCPUs together in a second: the rate that `cost_per_page` is; in bills of earlier versions, which have a
    /// `stddev`, the mean over the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages_per_second: Option<f64>,
    /// Standard deviation of that over the runs, in bills of earlier versions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages_per_second_stddev: Option<f64>,
    /// Rate that others measured in the same setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published: Option<PublishedRate>,
    /// CPUs that the threads ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    placement: Option<String>,
    /// Pages of 4 KiB by the size of the page that they were part of in the end: `4K`, `2M`, `1G`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    folios: BTreeMap<String, u64>,
    /// Pages in memory over time, in a run of its own that no other figure is of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resident: Vec<Moment>,
    /// Reports of dirty tracking, on the row of its harvest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracked: Option<Tracked>,
    /// Rounds over time, on the row of a guest that rewrites tracked pages: those of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rewriting: Option<Rewriting>,
    /// Pages, or operations, that were billed.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pages: Pages,
    /// The cost of one page in the bill's unit, the median over the runs; in bills of earlier versions, which have a `stddev`,
    /// their mean. Null when `unavailable` says why.
    cost_per_page: Option<f64>,
    /// Standard deviation over the runs, in bills of earlier versions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stddev: Option<f64>,
    /// Bounds between which 90 % of other bills of the same order have their cost; of a model, of the middle 90 % of the samples.
    /// Absent for a single run or sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval: Option<Interval>,
    /// The cost of one page in each run, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runs: Vec<f64>,
    /// Largest difference from the cost among slopes and guests that differ in nothing that matters, as a share of the cost;
    /// absent where it was not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spread: Option<f64>,
    /// Traps and hypercalls for each page, as the hypervisor counted them; null where that was not counted.
    crossings_per_page: Option<f64>,
    /// The crossings by kind: `ptwr`, `page-fault`, `mmu_update`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    crossings: BTreeMap<String, f64>,
    /// True where the mechanism loses nothing on SMP, by its checks; null where that was not, or not conclusively, checked.
    smp_safe: Option<bool>,
    /// The cost, item by item; sums to `cost_per_page`.
    tolls: Vec<Toll>,
    /// Times of single guests and their memory, where guests were restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restored: Option<Restored>,
    /// Memory that was given back, where memory was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discarded: Option<Discarded>,
    /// A time of migrations, where guests were migrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migrated: Option<Migrated>,
    /// Functions and events that it executed; absent without `--profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    /// Checks of the mechanism.
    checks: Vec<Check>,
    /// Reason for having no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unavailable: Option<String>,
}

/// Error of a row that was read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RowError {
    /// The mechanism is none of the route's.
    #[error(transparent)]
    Mechanism(#[from] UnknownName),
    /// Neither a cost nor a reason why there is none, or both.
    #[error("row {row}: {problem}; expected cost_per_page, or unavailable with the reason")]
    Cost {
        /// Its key, as displayed.
        row: String,
        /// Neither field is there, or both.
        problem: &'static str,
    },
    /// A field contradicts what it follows from.
    #[error(
        "row {row}: {field} is {given}; expected {expected}, which follows from the row's {source_field}"
    )]
    Contradiction {
        /// Its key, as displayed.
        row: String,
        /// Name of the JSON field.
        field: &'static str,
        /// Value of the JSON field.
        given: String,
        /// The value that the row's other fields imply.
        expected: String,
        /// Name of the JSON field that it follows from.
        source_field: &'static str,
    },
    /// A check whose verdict its numbers rule out.
    #[error(
        "row {row}: check {check} says {verdict}; expected the verdict that follows from tried, failed and control_failed"
    )]
    Verdict {
        /// Its key, as displayed.
        row: String,
        /// Name of the check.
        check: String,
        /// The verdict that contradicts the numbers.
        verdict: Verdict,
    },
    /// Two rows of a bill are the same line.
    #[error(
        "duplicate row {0}: operation, mechanism, batch, system, kernel, folio, vcpus, readers, ring, cache, clones and backing must differ between rows"
    )]
    Twice(String),
}

impl RowForm {
    /// The row of a bill of `route`.
    pub(crate) fn into_row(self, route: Route) -> Result<Row, RowError> {
        let key = RowKey {
            operation: self.operation,
            method: Method::named(route, &self.mechanism)?,
            batch: self.batch,
            system: self.system,
            kernel: self.kernel,
            folio: self.folio,
            vcpus: self.vcpus,
            readers: self.readers,
            ring: self.ring,
            cache: self.cache,
            clones: self.clones,
            backing: self.backing,
        };
        let figures = |cost_per_page| Figures {
            cost_per_page,
            stddev: self.stddev,
            interval: self.interval,
            runs: self.runs,
            spread: self.spread,
            rate: self.pages_per_second.map(|pages_per_second| Rate {
                pages_per_second,
                stddev: self.pages_per_second_stddev,
            }),
            crossings: self.crossings_per_page.map(|per_page| Crossings {
                per_page,
                by_kind: self.crossings,
            }),
            tolls: self.tolls,
            restored: self.restored,
            discarded: self.discarded,
            migrated: self.migrated,
        };
        let problem = match (self.cost_per_page, self.unavailable) {
            (Some(cost), None) => Ok(Ok(figures(cost))),
            (None, Some(reason)) => Ok(Err(Unavailable(reason))),
            (Some(_), Some(_)) => Err("has both a cost and a reason why it has none"),
            (None, None) => Err("has neither a cost nor a reason why it has none"),
        };
        let result = problem.map_err(|problem| RowError::Cost {
            row: key.to_string(),
            problem,
        })?;
        let row = Row {
            key,
            pages: self.pages,
            layout: self.layout,
            placement: self.placement,
            folios: self.folios,
            resident: self.resident,
            tracked: self.tracked,
            rewriting: self.rewriting,
            published: self.published,
            result,
            profile: self.profile,
            checks: self.checks,
        };
        row.check_derived(self.role, self.smp_safe)?;
        row.check_rate()?;
        Ok(row)
    }
}

impl Row {
    /// Refuses fields of the form that contradict those that they follow from.
    fn check_derived(&self, role: Role, smp_safe: Option<bool>) -> Result<(), RowError> {
        let row = || self.key.to_string();
        if let Some(check) = self
            .checks
            .iter()
            .find(|check| !check.allows(check.verdict))
        {
            return Err(RowError::Verdict {
                row: row(),
                check: check.name.clone(),
                verdict: check.verdict,
            });
        }
        if role != self.role() {
            return Err(RowError::Contradiction {
                row: row(),
                field: "role",
                given: role.to_string(),
                expected: self.role().to_string(),
                source_field: "mechanism",
            });
        }
        if smp_safe != self.smp_safe() {
            let word = |safe: Option<bool>| safe.map_or("null".to_owned(), |safe| safe.to_string());
            return Err(RowError::Contradiction {
                row: row(),
                field: "smp_safe",
                given: word(smp_safe),
                expected: word(self.smp_safe()),
                source_field: "checks",
            });
        }
        Ok(())
    }
}

/// Largest difference of a rate from that of its cost, as a share: decimal digits of both in JSON. Rates of earlier versions
/// are means of their own, and have a deviation.
const RATE_DIGITS: f64 = 1e-6;

impl Row {
    /// Refuses a rate that is another one than the cost is.
    fn check_rate(&self) -> Result<(), RowError> {
        let figures = self.figures();
        let rate = figures.and_then(|figures| figures.rate.filter(|_| !figures.runs.is_empty()));
        let (Some(rate), Some(vcpus), Some(cost)) = (rate, self.key.vcpus, self.cost()) else {
            return Ok(());
        };
        let expected = Rate::of_cost(vcpus, cost).pages_per_second;
        if rate.stddev.is_some() || (rate.pages_per_second / expected - 1.0).abs() <= RATE_DIGITS {
            return Ok(());
        }
        Err(RowError::Contradiction {
            row: self.key.to_string(),
            field: "pages_per_second",
            given: rate.pages_per_second.to_string(),
            expected: expected.to_string(),
            source_field: "cost_per_page",
        })
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RowForm::from(self).serialize(serializer)
    }
}

impl From<&Row> for RowForm {
    fn from(row: &Row) -> Self {
        let key = row.key.clone();
        let none = || Figures::of_cost(0.0);
        let figures = row.figures().cloned().unwrap_or_else(none);
        let crossings_per_page = row.crossings().map(|crossings| crossings.per_page);
        Self {
            operation: key.operation,
            mechanism: key.method.name().to_owned(),
            role: row.role(),
            batch: key.batch,
            system: key.system,
            kernel: key.kernel,
            folio: key.folio,
            layout: row.layout,
            vcpus: key.vcpus,
            readers: key.readers,
            ring: key.ring,
            cache: key.cache,
            clones: key.clones,
            backing: key.backing,
            pages_per_second: figures.rate.map(|rate| rate.pages_per_second),
            pages_per_second_stddev: figures.rate.and_then(|rate| rate.stddev),
            published: row.published,
            placement: row.placement.clone(),
            folios: row.folios.clone(),
            resident: row.resident.clone(),
            tracked: row.tracked.clone(),
            rewriting: row.rewriting.clone(),
            pages: row.pages,
            cost_per_page: row.cost(),
            stddev: figures.stddev,
            interval: figures.interval,
            runs: figures.runs,
            spread: figures.spread,
            crossings_per_page,
            crossings: figures.crossings.unwrap_or_default().by_kind,
            smp_safe: row.smp_safe(),
            tolls: figures.tolls,
            restored: figures.restored,
            discarded: figures.discarded,
            migrated: figures.migrated,
            profile: row.profile.clone(),
            checks: row.checks.clone(),
            unavailable: row.why_unavailable().map(str::to_owned),
        }
    }
}
