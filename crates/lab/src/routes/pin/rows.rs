//! From what guests report to rows. Pure.

use pagetoll_bill::row::{Folio, Layout};
use pagetoll_bill::{Check, Figures, Operation, Row, RowKey, System, Toll, Unavailable};

use super::collect::{Found, OfKernel};
use super::graph::{self, Direction, Shares};
use super::{Request, interface, plan};
use pagetoll_guest::pv::rows::per;
use pagetoll_guest::report::Pin;
use pagetoll_guest::step::Interface;

/// What is done with the memory; the first mapping pays once for the IOMMU's page tables.
const OPERATIONS: [Operation; 3] = [Operation::Map, Operation::Unmap, Operation::FirstMap];

/// The rows of one kernel.
pub(super) fn rows(request: &Request, of: &OfKernel) -> Vec<Row> {
    let shares = of.traced.as_ref().map(graph::shares).unwrap_or_default();
    let kernel = of.hello.linux_version();
    let mut rows = Vec::new();
    let mechanisms = request.order.of();
    for &mechanism in &mechanisms {
        let Some(interface) = interface(mechanism) else {
            continue;
        };
        // A column without a figure says no more than its absence, which a note states.
        if mechanisms.len() > 1 && interface == Interface::Iommufd && !of.has(interface) {
            continue;
        }
        for operation in OPERATIONS {
            rows.extend(request.shapes.iter().map(|&shape| {
                let cell = Cell {
                    operation,
                    interface,
                    shape,
                };
                let key = RowKey {
                    kernel: Some(kernel.clone()),
                    folio: Some(shape),
                    ..RowKey::new(operation, mechanism, System::Native)
                };
                row(key, cell, request, of, &shares)
            }));
        }
    }
    rows
}

/// What was done, through which interface, with memory of which shape.
#[derive(Clone, Copy)]
struct Cell {
    operation: Operation,
    interface: Interface,
    shape: Folio,
}

fn row(key: RowKey, cell: Cell, request: &Request, of: &OfKernel, shares: &Shares) -> Row {
    let Cell {
        interface, shape, ..
    } = cell;
    let pages = plan::pages(shape, request.order.pages);
    let is_of_cell = |pin: &&Pin| pin.shape == shape && pin.interface == interface;
    let pins = of
        .runs
        .iter()
        .filter_map(|run| run.pins.iter().find(is_of_cell));
    let pins: Vec<_> = pins.collect();
    let Some(first) = pins.first() else {
        return Row::unavailable(key, pages, why_not(&of.runs, cell));
    };
    let layout = Layout {
        runs: first.runs,
        folios: first.folios,
        largest_folio: first.largest,
    };
    Row {
        layout: Some(layout),
        checks: checks(&pins),
        ..Row::new(key, pages, figures(&pins, first, cell, shares))
    }
}

fn figures(
    pins: &[&Pin],
    first: &Pin,
    cell: Cell,
    shares: &Shares,
) -> Result<Figures, Unavailable> {
    let costs = pins.iter().map(|pin| cost(pin, cell.operation));
    let figures = Figures::of_runs(costs.collect())?;
    let total = figures.cost_per_page;
    let traced = match (cell.operation, cell.interface) {
        (Operation::Map, Interface::Type1) => shares.of(cell.shape, Direction::Map),
        (Operation::Unmap, Interface::Type1) => shares.of(cell.shape, Direction::Unmap),
        _ => None,
    };
    let tolls = traced.map_or_else(
        || vec![ioctl_toll(first, total)],
        |shares| graph::tolls(shares, total),
    );
    Ok(Figures { tolls, ..figures })
}

fn why_not(runs: &[Found], cell: Cell) -> String {
    let mut reports = runs.iter().flat_map(|run| &run.unavailable);
    let report = reports.find(|one| one.shape == cell.shape && one.interface == cell.interface);
    report.map_or_else(
        || "the kernel was built without iommufd".to_owned(),
        |report| report.reason.clone(),
    )
}

/// Instructions for each page; the median of the repeats.
fn cost(pin: &Pin, operation: Operation) -> f64 {
    let mut repeats = match operation {
        Operation::Map => pin.map.clone(),
        Operation::Unmap => pin.unmap.clone(),
        _ => vec![pin.first_map],
    };
    repeats.sort_unstable();
    let median = repeats.get(repeats.len() / 2).copied().unwrap_or_default();
    per(median, pin.pages)
}

fn ioctl_toll(pin: &Pin, cost_per_page: f64) -> Toll {
    let count_per_page = per(pin.ioctls, pin.pages);
    Toll::new("ioctl", count_per_page, cost_per_page / count_per_page)
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
    use pagetoll_bill::spec::{LabSpec, Wanted};
    use pagetoll_bill::{Route, Spec};
    use pagetoll_units::Pages;

    use super::*;
    use pagetoll_guest::report::PinUnavailable;

    fn pin(shape: Folio) -> Pin {
        Pin {
            interface: Interface::Type1,
            shape,
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
        let request = Request::new(&Spec {
            folios: vec![Folio::Pages2m, Folio::Pages1g],
            mechanisms: vec!["kernel".to_owned()],
            pages: Some(Pages(512)),
            lab: LabSpec {
                trace: Wanted::No,
                ..LabSpec::default()
            },
            ..Spec::new(Route::Pin)
        });
        let of = OfKernel {
            hello: pagetoll_guest::report::Hello::default(),
            runs: vec![found],
            traced: None,
        };
        rows(&request.unwrap(), &of)
    }

    #[test]
    fn what_the_guest_had_no_pages_for_says_why_and_has_no_figure() {
        let why = "no free hugepages of 1 GiB: the guest has too little contiguous memory";
        let found = Found {
            pins: vec![pin(Folio::Pages2m)],
            unavailable: vec![PinUnavailable {
                interface: Interface::Type1,
                shape: Folio::Pages1g,
                reason: why.to_owned(),
            }],
            ..Found::default()
        };
        for row in rows_of(found) {
            if row.key.folio == Some(Folio::Pages1g) {
                assert_eq!(row.why_unavailable(), Some(why));
                assert_eq!((row.cost(), row.checks.len()), (None, 0));
            } else {
                assert_eq!(row.why_unavailable(), None);
            }
        }
    }

    #[test]
    fn the_median_of_the_repeats_is_billed() {
        let found = Found {
            pins: vec![pin(Folio::Pages2m), pin(Folio::Pages1g)],
            ..Found::default()
        };
        let rows = rows_of(found);
        let cost = |operation| {
            let mut of = rows.iter().filter(|row| row.key.operation == operation);
            of.next().and_then(Row::cost)
        };
        assert_eq!(cost(Operation::Map), Some(10_241.0 / 512.0));
        assert_eq!(cost(Operation::Unmap), Some(10.0));
        assert_eq!(cost(Operation::FirstMap), Some(100.0));
    }
}
