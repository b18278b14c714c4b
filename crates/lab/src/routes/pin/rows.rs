//! From what guests report to rows. Pure.

use std::collections::BTreeMap;

use pagetoll_bill::{Check, Layout, Role, Row, System, Toll};
use pagetoll_units::Pages;

use super::collect::{Found, OfKernel};
use super::graph::{self, Share};
use super::plan::Shape;
use crate::guest::report::Pin;

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
        if columns.mechanisms.len() > 1 && interface != "type1" && !of.has(interface) {
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
        || "the kernel was built without iommufd".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::report::PinUnavailable;

    fn pin(shape: &str) -> Pin {
        Pin {
            interface: "type1".to_owned(),
            shape: shape.to_owned(),
            pages: 512,
            ioctls: 1,
            first_map: 51_200,
            map: vec![10_240, 10_241, 99_999],
            unmap: vec![5120, 5120, 5120],
            runs: 1,
            folios: 1,
            largest: 512,
            locked: 512,
            left: 0,
            tried: 4,
            misplaced: 0,
        }
    }

    fn rows_of(found: Found) -> Vec<Row> {
        let named = |name| *Shape::named(name).unwrap();
        let columns = Columns {
            version: "6.18.15",
            shapes: &[named("2M"), named("1G")],
            mechanisms: &["kernel".to_owned()],
            pages: Pages(512),
        };
        let of = OfKernel {
            hello: crate::guest::report::Hello::default(),
            runs: vec![found],
            traced: None,
        };
        rows(&columns, &of)
    }

    #[test]
    fn what_the_guest_had_no_pages_for_says_why_and_has_no_figure() {
        let why = "no free hugepages of 1 GiB: the guest has too little contiguous memory";
        let found = Found {
            pins: vec![pin("2M")],
            unavailable: vec![PinUnavailable {
                interface: "type1".to_owned(),
                shape: "1G".to_owned(),
                reason: why.to_owned(),
            }],
            ..Found::default()
        };
        for row in rows_of(found) {
            if row.folio.as_deref() == Some("1G") {
                assert_eq!(row.unavailable.as_deref(), Some(why));
                assert_eq!((row.cost_per_page, row.checks.len()), (None, 0));
            } else {
                assert_eq!(row.unavailable, None);
            }
        }
    }

    #[test]
    fn the_median_of_the_repeats_is_billed() {
        let found = Found {
            pins: vec![pin("2M"), pin("1G")],
            ..Found::default()
        };
        let rows = rows_of(found);
        let cost = |operation| {
            let mut of = rows.iter().filter(|row| row.operation == operation);
            of.next().and_then(|row| row.cost_per_page)
        };
        assert_eq!(cost("map"), Some(10_241.0 / 512.0));
        assert_eq!(
            (cost("unmap"), cost("first-map")),
            (Some(10.0), Some(100.0))
        );
    }
}
