//! The scalars of a row, in the order of their columns.

use pagetoll_bill::{Bill, Row};
use serde::Serialize;

/// One line, without the columns whose names depend on the bill.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Scalars<'a> {
    route: &'static str,
    backend: &'static str,
    unit: &'static str,
    evidence: &'static str,
    operation: &'static str,
    mechanism: &'static str,
    role: &'static str,
    batch: u32,
    system: &'static str,
    kernel: Option<&'a str>,
    folio: Option<&'static str>,
    vcpus: Option<u32>,
    readers: Option<u32>,
    ring: Option<u8>,
    pages: u64,
    #[serde(rename = "layout.runs")]
    layout_runs: Option<u64>,
    #[serde(rename = "layout.folios")]
    layout_folios: Option<u64>,
    #[serde(rename = "layout.largest_folio")]
    layout_largest_folio: Option<u64>,
    placement: Option<&'a str>,
    cost_per_page: Option<f64>,
    stddev: Option<f64>,
    #[serde(rename = "interval.low")]
    interval_low: Option<f64>,
    #[serde(rename = "interval.high")]
    interval_high: Option<f64>,
    runs: String,
    pages_per_second: Option<f64>,
    pages_per_second_stddev: Option<f64>,
    #[serde(rename = "published.pages_per_second")]
    published_pages_per_second: Option<f64>,
    #[serde(rename = "published.fitted")]
    published_fitted: Option<bool>,
    #[serde(rename = "published.scalability")]
    published_scalability: Option<f64>,
    crossings_per_page: Option<f64>,
    smp_safe: Option<bool>,
    unavailable: Option<&'a str>,
}

impl<'a> Scalars<'a> {
    pub(super) fn of(bill: &Bill, row: &'a Row) -> Self {
        let key = &row.key;
        let figures = Self::of_figures(row);
        Self {
            route: bill.route.name(),
            backend: bill.backend.name(),
            unit: bill.unit.name(),
            evidence: bill.evidence.name(),
            operation: key.operation.name(),
            mechanism: key.method.name(),
            role: row.role().name(),
            batch: key.batch,
            system: key.system.name(),
            kernel: key.kernel.as_deref(),
            folio: key.folio.map(|folio| folio.name()),
            vcpus: key.vcpus,
            readers: key.readers,
            ring: key.ring,
            pages: row.pages.get(),
            layout_runs: row.layout.map(|layout| layout.runs),
            layout_folios: row.layout.map(|layout| layout.folios),
            layout_largest_folio: row.layout.map(|layout| layout.largest_folio),
            placement: row.placement.as_deref(),
            published_pages_per_second: row.published.map(|rate| rate.pages_per_second),
            published_fitted: row.published.map(|rate| rate.fitted),
            published_scalability: row.published.and_then(|rate| rate.scalability),
            smp_safe: row.smp_safe(),
            unavailable: row.why_unavailable(),
            ..figures
        }
    }

    fn of_figures(row: &Row) -> Self {
        let Some(figures) = row.figures() else {
            return Self::default();
        };
        let runs: Vec<_> = figures.runs.iter().map(ToString::to_string).collect();
        Self {
            cost_per_page: Some(figures.cost_per_page),
            stddev: figures.stddev,
            interval_low: figures.interval.map(|interval| interval.low),
            interval_high: figures.interval.map(|interval| interval.high),
            runs: runs.join(";"),
            pages_per_second: figures.rate.map(|rate| rate.pages_per_second),
            pages_per_second_stddev: figures.rate.and_then(|rate| rate.stddev),
            crossings_per_page: row.crossings().map(|crossings| crossings.per_page),
            ..Self::default()
        }
    }
}
