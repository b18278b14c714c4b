//! From what guests report to rows. Pure.

use std::collections::BTreeMap;

use pagetoll_bill::{Check, Layout, Role, Row, System, Toll};
use pagetoll_units::Pages;

use super::collect::{Found, OfKernel};
use super::graph::{self, Share};
use super::plan::Shape;
use crate::report::Pin;

/// What is done with the memory; the first mapping pays once for the IOMMU's page tables.
const OPERATIONS: [&str; 3] = ["map", "unmap", "first-map"];
/// What the probe calls the interfaces, and the bill the mechanisms.
const MECHANISMS: [(&str, &str); 2] = [("type1", "kernel"), ("iommufd", "iommufd")];

/// What is to be billed of one kernel.
pub(super) struct Columns<'a> {
    pub(super) version: &'a str,
    pub(super) shapes: &'a [Shape],
    pub(super) mechanisms: &'a [String],
    pub(super) pages: Pages,
}

/// The rows of one kernel.
pub(super) fn rows(columns: &Columns<'_>, of: &OfKernel) -> Vec<Row> {
    let shares = of.traced.as_ref().map(graph::shares).unwrap_or_default();
    let mut rows = Vec::new();
    for (interface, mechanism) in MECHANISMS {
        if !columns.mechanisms.iter().any(|name| name == mechanism) {
            continue;
        }
        // A column without a figure says no more than its absence, which a note tells.
        let of_interface = |found: &Found| found.pins.iter().any(|pin| pin.interface == interface);
        if columns.mechanisms.len() > 1 && interface != "type1" && !of.runs.iter().any(of_interface)
        {
            continue;
        }
        for operation in OPERATIONS {
            for shape in columns.shapes {
                let mut row = Row::new(
                    operation,
                    mechanism,
                    Role::Observed,
                    shape.pages(columns.pages),
                );
                row.system = System::Native;
                row.kernel = Some(columns.version.to_owned());
                row.folio = Some(shape.name.to_owned());
                fill(&mut row, (interface, shape), (of, &shares));
                rows.push(row);
            }
        }
    }
    rows
}

type Shares = BTreeMap<(String, &'static str), Vec<Share>>;

fn fill(row: &mut Row, (interface, shape): (&str, &Shape), (of, shares): (&OfKernel, &Shares)) {
    let of_shape = |found: &&Pin| found.shape == shape.name && found.interface == interface;
    let pins: Vec<_> = of
        .runs
        .iter()
        .filter_map(|run| run.pins.iter().find(of_shape))
        .collect();
    let Some(first) = pins.first() else {
        row.unavailable = Some(why_not(&of.runs, shape.name, interface));
        return;
    };
    let per_page = |pin: &&Pin| cost(pin, &row.operation);
    let costs = pins.iter().map(per_page).collect();
    row.set_runs(costs);
    row.layout = Some(Layout {
        runs: first.runs,
        folios: first.folios,
        largest_folio: first.largest,
    });
    row.checks = checks(&pins);
    let total = row.cost_per_page.unwrap_or_default();
    let traced = shares.get(&(shape.name.to_owned(), of_operation(&row.operation)));
    row.tolls = match traced.filter(|_| row.operation != "first-map" && interface == "type1") {
        Some(shares) => graph::tolls(shares, total),
        None => vec![ioctl_toll(first, total)],
    };
}

fn of_operation(operation: &str) -> &'static str {
    if operation == "unmap" { "unmap" } else { "map" }
}

fn why_not(runs: &[Found], shape: &str, interface: &str) -> String {
    let told = runs.iter().flat_map(|run| &run.unavailable);
    let mut told = told.filter(|one| one.shape == shape && one.interface == interface);
    told.next().map_or_else(
        || "the kernel has no module iommufd".to_owned(),
        |one| one.reason.clone(),
    )
}

/// Instructions for each page; the median of the repeats.
#[allow(clippy::cast_precision_loss)]
fn cost(pin: &Pin, operation: &str) -> f64 {
    let repeats = match operation {
        "map" => pin.map.clone(),
        "unmap" => pin.unmap.clone(),
        _ => vec![pin.first_map],
    };
    let mut repeats = repeats;
    repeats.sort_unstable();
    let median = repeats.get(repeats.len() / 2).copied().unwrap_or_default();
    median as f64 / pin.pages as f64
}

#[allow(clippy::cast_precision_loss)]
fn ioctl_toll(pin: &Pin, cost_per_page: f64) -> Toll {
    let count_per_page = pin.ioctls as f64 / pin.pages as f64;
    Toll {
        name: "ioctl".to_owned(),
        count_per_page,
        cost_each: cost_per_page / count_per_page,
    }
}

/// Every run's: pages locked while mapped and none after, and what the device finds.
fn checks(pins: &[&Pin]) -> Vec<Check> {
    let sum = |of: fn(&Pin) -> u64| pins.iter().map(|pin| of(pin)).sum();
    let pages = sum(|pin| pin.pages);
    vec![
        Check::against_known("locked", pages, sum(|pin| pin.pages.abs_diff(pin.locked))),
        Check::against_known("unlocked", pages, sum(|pin| pin.left)),
        Check::against_known(
            "device-reads",
            sum(|pin| pin.tried),
            sum(|pin| pin.misplaced),
        ),
    ]
}
