//! From what guests report to rows. Pure.

use pagetoll_bill::{Operation, Row, RowKey, System};
use pagetoll_protocol::step::Interface;
use pagetoll_pv::pin::{self, Cell};

use super::Request;
use super::boots::KernelRuns;
use super::graph::{self, Direction, Shares};

/// The rows of one kernel.
pub(super) fn rows(request: &Request, of: &KernelRuns) -> Vec<Row> {
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
                let cell = Cell { interface, shape };
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

fn row(key: RowKey, cell: Cell, request: &Request, of: &KernelRuns, shares: &Shares) -> Row {
    let direction = match (key.operation, cell.interface) {
        (Operation::Map, Interface::Type1) => Some(Direction::Map),
        (Operation::Unmap, Interface::Type1) => Some(Direction::Unmap),
        _ => None,
    };
    let tolls = |cost| Some(graph::tolls(shares.get(cell.shape, direction?)?, cost));
    let runs: Vec<_> = of.runs.iter().map(|run| &run.bill).collect();
    pin::row(key, cell, request.order.pages, &runs, tolls)
}
