//! The bill: what each mechanism costs per page, item by item, with checks and exactly what was run.
//!
//! The JSON form is `pagetoll.bill/1`, described in `docs/bill-schema.json`; it only ever gains fields.

use std::collections::BTreeMap;
use std::fmt;

use pagetoll_units::Pages;
use serde::{Deserialize, Serialize};

use crate::check::{Check, Verdict};
use crate::order::Order;
use crate::provenance::Provenance;
use crate::route::{Role, Route};
use crate::spread::Spread;

/// The version of the JSON form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schema {
    /// The first.
    #[default]
    #[serde(rename = "pagetoll.bill/1")]
    V1,
}

/// Where the route was travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Real Xen and Linux in QEMU.
    Lab,
    /// This host's KVM, userfaultfd, VFIO.
    Live,
    /// The simulator.
    Sim,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lab => "lab",
            Self::Live => "live",
            Self::Sim => "sim",
        })
    }
}

/// What costs are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Guest and hypervisor instructions.
    Instructions,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

/// How far a figure can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Counted; the same run gives the same figure.
    Exact,
    /// Measured, with a spread.
    Measured,
    /// Computed from a model.
    Modelled,
}

/// The system that a row was billed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Linux as the PV control domain of Xen.
    XenPvDom0,
    /// A 32-bit PV control domain of Xen with PAE, which does nothing but travel the route.
    XenPv32Dom0,
    /// The same kernel without a hypervisor.
    Native,
    /// A guest of this host's KVM.
    KvmGuest,
}

/// One itemised cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Toll {
    /// What is paid for.
    pub name: String,
    /// How often for each page.
    pub count_per_page: f64,
    /// How much each time, in the bill's unit.
    pub cost_each: f64,
}

impl Toll {
    /// What a page pays for this item.
    #[must_use]
    pub fn cost_per_page(&self) -> f64 {
        self.count_per_page * self.cost_each
    }
}

/// The middle part of many samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// 5 % of the samples are below this.
    pub low: f64,
    /// 5 % of the samples are above this.
    pub high: f64,
}

impl Interval {
    /// Where the middle 90 % of the samples lie, by nearest rank; `None` for fewer than two. Sorts the samples.
    #[must_use]
    pub fn of_middle(samples: &mut [f64]) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1).filter(|last| *last > 0)?;
        let beyond = samples.len() / 20;
        Some(Self {
            low: samples[beyond],
            high: samples[last - beyond],
        })
    }
}

/// A published rate beside a modelled one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRate {
    /// Pages of all vCPUs together for each second, as published.
    pub pages_per_second: f64,
    /// Whether the model was calibrated to it: then it is no prediction.
    pub fitted: bool,
    /// What the universal scalability law makes of the calibration points; absent where there are not two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalability: Option<f64>,
}

/// What physical memory the pages of a row were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Runs of physically contiguous pages.
    pub runs: u64,
    /// Folios; a page of its own is one.
    pub folios: u64,
    /// Pages of 4 KiB of the largest folio.
    pub largest_folio: u64,
}

/// One line of the bill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was done with the pages: `clear`, `munmap-written`, ...
    pub operation: String,
    /// The mechanism's name; `kernel` where the kernel chose.
    pub mechanism: String,
    /// What the mechanism is to its route.
    pub role: Role,
    /// Pages taken at once; 1 where there is no batch.
    pub batch: u32,
    /// The system that it was billed on.
    pub system: System,
    /// The kernel, where a bill has several, pagetoll built it, or the route depends on it: as it was ordered
    /// (`fix:none`), or its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The shape of the memory: `4K`, `THP`, `2M`, `1G`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folio: Option<String>,
    /// What physical memory that was in fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// vCPUs that travelled the route at once; absent where it was one and nothing else is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Reader threads that served faults; absent where nobody read any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<u32>,
    /// The privilege level that the guest ran at: 0 or 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<u8>,
    /// Pages of all vCPUs together for each second, the mean over the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_per_second: Option<f64>,
    /// Standard deviation of that over the runs; absent for a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_per_second_stddev: Option<f64>,
    /// What others measured in the same setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedRate>,
    /// On which CPUs the threads ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Pages of 4 KiB by the size of the page that they were part of in the end: `4K`, `2M`, `1G`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folios: BTreeMap<String, u64>,
    /// Pages that were billed.
    pub pages: Pages,
    /// The cost of one page in the bill's unit, the mean over the runs; absent when `unavailable` says why.
    pub cost_per_page: Option<f64>,
    /// Standard deviation over the runs; absent for a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// Where 90 % of the samples of a model's cost lie; absent where nothing was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The cost of one page in each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<f64>,
    /// Traps and hypercalls for each page, as the hypervisor counted them; absent where nobody counted.
    pub crossings_per_page: Option<f64>,
    /// The crossings by kind: `ptwr`, `page-fault`, `mmu_update`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub crossings: BTreeMap<String, f64>,
    /// Whether the mechanism loses nothing on SMP; absent where it was not, or not conclusively, checked.
    pub smp_safe: Option<bool>,
    /// The cost, item by item; sums to `cost_per_page`.
    pub tolls: Vec<Toll>,
    /// What was checked.
    pub checks: Vec<Check>,
    /// Why this row has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl Row {
    /// A row without figures yet, of one page or operation at a time, on a PV dom0.
    #[must_use]
    pub fn new(operation: &str, mechanism: &str, role: Role, pages: Pages) -> Self {
        Self {
            operation: operation.to_owned(),
            mechanism: mechanism.to_owned(),
            role,
            batch: 1,
            system: System::XenPvDom0,
            kernel: None,
            folio: None,
            layout: None,
            vcpus: None,
            readers: None,
            ring: None,
            pages_per_second: None,
            pages_per_second_stddev: None,
            published: None,
            placement: None,
            folios: BTreeMap::new(),
            pages,
            cost_per_page: None,
            stddev: None,
            interval: None,
            runs: Vec::new(),
            crossings_per_page: None,
            crossings: BTreeMap::new(),
            smp_safe: None,
            tolls: Vec::new(),
            checks: Vec::new(),
            unavailable: None,
        }
    }

    /// Sets the rate from the runs' rates, in pages for each second; nothing when there are none.
    pub fn set_rates(&mut self, rates: &[f64]) {
        let spread = Spread::of(rates);
        self.pages_per_second = spread.map(|s| s.mean);
        self.pages_per_second_stddev = spread.filter(|_| rates.len() > 1).map(|s| s.stddev);
    }

    /// Sets cost, interval and tolls from the tolls of each sample of a model; nothing when there are none.
    ///
    /// The row shows the sample in the middle, so that its tolls are those of one machine and sum to its cost.
    pub fn set_samples(&mut self, mut samples: Vec<Vec<Toll>>) {
        let cost = |tolls: &[Toll]| tolls.iter().map(Toll::cost_per_page).sum::<f64>();
        samples.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let mut costs: Vec<_> = samples.iter().map(|tolls| cost(tolls)).collect();
        let Some(last) = samples.len().checked_sub(1) else {
            return;
        };
        self.tolls = samples.swap_remove(last / 2);
        self.cost_per_page = Some(cost(&self.tolls));
        self.interval = Interval::of_middle(&mut costs);
    }

    /// Sets the cost from the runs' costs; nothing when there are none.
    pub fn set_runs(&mut self, runs: Vec<f64>) {
        let spread = Spread::of(&runs);
        self.cost_per_page = spread.map(|s| s.mean);
        self.stddev = spread.filter(|_| runs.len() > 1).map(|s| s.stddev);
        self.runs = runs;
    }
}

/// A bill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// The version of this form.
    pub schema: Schema,
    /// The route that was billed.
    pub route: Route,
    /// Where.
    pub backend: Backend,
    /// Why there: what was ordered, or why this is the best evidence that the machine gives.
    pub backend_reason: String,
    /// What costs are counted in.
    pub unit: Unit,
    /// How far the figures can be trusted.
    pub evidence: Evidence,
    /// Versions of what was run, by component: `xen`, `linux`, `qemu`.
    pub stack: BTreeMap<String, String>,
    /// What was ordered.
    pub order: Order,
    /// The lines.
    pub rows: Vec<Row>,
    /// What a reader should know of these figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What exactly was run.
    pub provenance: Provenance,
}

impl Bill {
    /// Whether `check` says something of other rows only: that of a mechanism which is a negative control, because
    /// nobody says that it is safe. That it fails is what it is there for.
    #[must_use]
    pub fn is_of_control(&self, row: &Row, check: &Check) -> bool {
        let known = self.route.mechanism(&row.mechanism);
        check.needs_control() && !known.is_ok_and(|mechanism| mechanism.smp_safe)
    }

    /// The checks with this verdict that say something of the row that they stand in.
    pub fn checks_with(&self, verdict: Verdict) -> impl Iterator<Item = (&Row, &Check)> {
        let checks = self
            .rows
            .iter()
            .flat_map(|row| row.checks.iter().map(move |check| (row, check)));
        checks
            .filter(move |(row, check)| check.verdict == verdict && !self.is_of_control(row, check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mechanism: &str, checks: Vec<Check>) -> Row {
        Row {
            checks,
            ..Row::new("clear", mechanism, Role::Alternative, Pages(4))
        }
    }

    fn bill(rows: Vec<Row>) -> Bill {
        Bill {
            schema: Schema::V1,
            route: Route::Unmap,
            backend: Backend::Lab,
            backend_reason: String::new(),
            unit: Unit::Instructions,
            evidence: Evidence::Exact,
            stack: BTreeMap::new(),
            order: Order {
                pages: Pages(4),
                batches: vec![1],
                mechanisms: vec![],
                runs: 1,
            },
            rows,
            notes: vec![],
            provenance: Provenance::default(),
        }
    }

    #[test]
    fn the_sample_in_the_middle_is_shown_with_its_own_tolls() {
        let tolls = |cost_each| {
            vec![Toll {
                name: "call".into(),
                count_per_page: 2.0,
                cost_each,
            }]
        };
        let mut row = row("emulate", vec![]);
        row.set_samples(vec![tolls(9.0), tolls(1.0), tolls(5.0), tolls(7.0)]);
        assert_eq!((row.cost_per_page, row.tolls), (Some(10.0), tolls(5.0)));
        assert_eq!(row.interval.map(|i| (i.low, i.high)), Some((2.0, 18.0)));
    }

    #[test]
    fn an_interval_leaves_a_twentieth_out_on_either_side() {
        let mut samples: Vec<f64> = (0..200).rev().map(f64::from).collect();
        let middle = Interval::of_middle(&mut samples).unwrap();
        assert_eq!((middle.low, middle.high), (10.0, 189.0));
        assert_eq!(Interval::of_middle(&mut [1.0]), None);
    }

    #[test]
    fn one_run_has_a_cost_but_no_deviation() {
        let mut row = row("emulate", vec![]);
        row.set_runs(vec![1836.0]);
        assert_eq!((row.cost_per_page, row.stddev), (Some(1836.0), None));
        row.set_runs(vec![1836.0, 1836.0]);
        assert_eq!((row.cost_per_page, row.stddev), (Some(1836.0), Some(0.0)));
    }

    #[test]
    fn rates_have_a_deviation_of_their_own() {
        let mut row = row("emulate", vec![]);
        row.set_rates(&[100.0]);
        assert_eq!(
            (row.pages_per_second, row.pages_per_second_stddev),
            (Some(100.0), None)
        );
        row.set_rates(&[100.0, 102.0]);
        assert_eq!(row.pages_per_second, Some(101.0));
        assert!(
            row.pages_per_second_stddev
                .is_some_and(|stddev| (stddev - 2_f64.sqrt()).abs() < 1e-9)
        );
    }

    #[test]
    fn a_control_may_lose_bits_but_not_return_wrong_frames() {
        let lost = Check::of_control("smp-lost-dirty", 10, 3);
        let wrong = Check::against_known("frame", 10, 1);
        let failed = |mechanism: &str, check: &Check| {
            let bill = bill(vec![row(mechanism, vec![check.clone()])]);
            bill.checks_with(Verdict::Fail).count()
        };
        assert_eq!(failed("emulate", &lost), 1);
        assert_eq!(failed("set-pte", &lost), 0);
        assert_eq!(failed("set-pte", &wrong), 1);
    }
}
