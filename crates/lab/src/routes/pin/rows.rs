//! From what guests report to rows. Pure.

use pagetoll_bill::row::Folio;
use pagetoll_bill::{Operation, Row, RowKey, System};

use super::Request;
use super::collect::{Found, OfKernel};
use super::graph::{self, Direction, Shares};
use pagetoll_guest::pin;
use pagetoll_guest::report::Pin;
use pagetoll_guest::step::Interface;

/// The rows of one kernel.
pub(super) fn rows(request: &Request, of: &OfKernel) -> Vec<Row> {
    let shares = of.traced.as_ref().map(graph::shares).unwrap_or_default();
    let kernel = of.hello.linux_version();
    let mut rows = Vec::new();
    let mechanisms = request.order.of();
    for &mechanism in &mechanisms {
        let Some(interface) = pin::interface(mechanism) else {
            continue;
        };
        // A column without a figure says no more than its absence, which a note states.
        if mechanisms.len() > 1 && interface == Interface::Iommufd && !of.has(interface) {
            continue;
        }
        for operation in pin::OPERATIONS {
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
    let pages = pin::pages(shape, request.order.pages);
    let is_of_cell = |pin: &&Pin| pin.shape == shape && pin.interface == interface;
    let pins = of
        .runs
        .iter()
        .filter_map(|run| run.pins.iter().find(is_of_cell));
    let pins: Vec<_> = pins.collect();
    let tolls = |cost| {
        let direction = match (cell.operation, interface) {
            (Operation::Map, Interface::Type1) => Direction::Map,
            (Operation::Unmap, Interface::Type1) => Direction::Unmap,
            _ => return None,
        };
        Some(graph::tolls(shares.of(shape, direction)?, cost))
    };
    pin::row(key.clone(), pages, &pins, tolls)
        .unwrap_or_else(|| Row::unavailable(key, pages, why_not(&of.runs, cell)))
}

fn why_not(runs: &[Found], cell: Cell) -> String {
    let mut reports = runs.iter().flat_map(|run| &run.unavailable);
    let report = reports.find(|one| one.shape == cell.shape && one.interface == cell.interface);
    report.map_or_else(
        || "the kernel was built without iommufd".to_owned(),
        |report| report.reason.clone(),
    )
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
        let why = "too few free hugepages of 1 GiB";
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
}
