//! The rows of a bill as CSV: one line for each row, one column for each scalar.
//!
//! Columns, in this order: what is the same on every line (`route`, `backend`, `unit`, `evidence`, `stack.NAME`),
//! the scalars of the row by their JSON names (`runs` separated by semicolons), and then, for every name that occurs
//! in the bill in the order of its first occurrence, `crossings.NAME`, `tolls.NAME.count_per_page`,
//! `tolls.NAME.cost_each`, `checks.NAME.tried`, `.failed`, `.control_failed` and `.verdict`.
//! What a row does not have is empty; why it has no figures stands in `unavailable`.
//! Notes and provenance are in the other forms.

use anyhow::{Context, Result};
use pagetoll_bill::{Bill, Check, Row, Toll};

use crate::words::word;

const ROW_COLUMNS: [&str; 25] = [
    "operation",
    "mechanism",
    "role",
    "batch",
    "system",
    "kernel",
    "folio",
    "pages",
    "cost_per_page",
    "stddev",
    "interval.low",
    "interval.high",
    "runs",
    "crossings_per_page",
    "smp_safe",
    "unavailable",
    "vcpus",
    "readers",
    "ring",
    "pages_per_second",
    "pages_per_second_stddev",
    "placement",
    "published.pages_per_second",
    "published.fitted",
    "published.scalability",
];
const TOLL_COLUMNS: [&str; 2] = ["count_per_page", "cost_each"];
const CHECK_COLUMNS: [&str; 4] = ["tried", "failed", "control_failed", "verdict"];

/// The rows as CSV, with a header line.
pub(super) fn rows(bill: &Bill) -> Result<String> {
    let names = Names::of(bill);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names.header(bill))?;
    for row in &bill.rows {
        writer.write_record(names.line(bill, row))?;
    }
    let bytes = writer.into_inner().context("cannot end the CSV")?;
    Ok(String::from_utf8(bytes)?)
}

/// What occurs in any row, in the order of its first occurrence.
struct Names<'a> {
    crossings: Vec<&'a str>,
    tolls: Vec<&'a str>,
    checks: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(bill: &'a Bill) -> Self {
        let rows = || bill.rows.iter();
        Self {
            crossings: unique(rows().flat_map(|row| row.crossings.keys().map(String::as_str))),
            tolls: unique(rows().flat_map(|row| row.tolls.iter().map(|toll| toll.name.as_str()))),
            checks: unique(
                rows().flat_map(|row| row.checks.iter().map(|check| check.name.as_str())),
            ),
        }
    }

    fn header(&self, bill: &Bill) -> Vec<String> {
        let mut header = ["route", "backend", "unit", "evidence"]
            .map(str::to_owned)
            .to_vec();
        header.extend(bill.stack.keys().map(|name| format!("stack.{name}")));
        header.extend(ROW_COLUMNS.map(str::to_owned));
        header.extend(
            self.crossings
                .iter()
                .map(|name| format!("crossings.{name}")),
        );
        let tolls = self.tolls.iter();
        header.extend(tolls.flat_map(|name| TOLL_COLUMNS.map(|c| format!("tolls.{name}.{c}"))));
        let checks = self.checks.iter();
        header.extend(checks.flat_map(|name| CHECK_COLUMNS.map(|c| format!("checks.{name}.{c}"))));
        header
    }

    fn line(&self, bill: &Bill, row: &Row) -> Vec<String> {
        let mut line = vec![
            bill.route.to_string(),
            word(bill.backend),
            word(bill.unit),
            word(bill.evidence),
        ];
        line.extend(bill.stack.values().cloned());
        line.extend(scalars(row));
        line.extend(
            self.crossings
                .iter()
                .map(|name| optional(row.crossings.get(*name))),
        );
        for name in &self.tolls {
            line.extend(toll_cells(row.tolls.iter().find(|toll| toll.name == *name)));
        }
        for name in &self.checks {
            line.extend(check_cells(
                row.checks.iter().find(|check| check.name == *name),
            ));
        }
        line
    }
}

fn scalars(row: &Row) -> [String; ROW_COLUMNS.len()] {
    let runs: Vec<_> = row.runs.iter().map(ToString::to_string).collect();
    [
        row.operation.clone(),
        row.mechanism.clone(),
        word(row.role),
        row.batch.to_string(),
        word(row.system),
        row.kernel.clone().unwrap_or_default(),
        row.folio.clone().unwrap_or_default(),
        row.pages.get().to_string(),
        optional(row.cost_per_page.as_ref()),
        optional(row.stddev.as_ref()),
        optional(row.interval.as_ref().map(|interval| &interval.low)),
        optional(row.interval.as_ref().map(|interval| &interval.high)),
        runs.join(";"),
        optional(row.crossings_per_page.as_ref()),
        optional(row.smp_safe.as_ref()),
        row.unavailable.clone().unwrap_or_default(),
        optional(row.vcpus.as_ref()),
        optional(row.readers.as_ref()),
        optional(row.ring.as_ref()),
        optional(row.pages_per_second.as_ref()),
        optional(row.pages_per_second_stddev.as_ref()),
        row.placement.clone().unwrap_or_default(),
        optional(row.published.map(|p| p.pages_per_second).as_ref()),
        optional(row.published.map(|p| p.fitted).as_ref()),
        optional(row.published.and_then(|p| p.scalability).as_ref()),
    ]
}

fn toll_cells(toll: Option<&Toll>) -> [String; TOLL_COLUMNS.len()] {
    toll.map_or_else(Default::default, |toll| {
        [toll.count_per_page.to_string(), toll.cost_each.to_string()]
    })
}

fn check_cells(check: Option<&Check>) -> [String; CHECK_COLUMNS.len()] {
    check.map_or_else(Default::default, |check| {
        [
            check.tried.to_string(),
            check.failed.to_string(),
            optional(check.control_failed.as_ref()),
            word(check.verdict),
        ]
    })
}

fn optional(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}
