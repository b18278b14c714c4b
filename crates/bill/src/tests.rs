//! Samples for the tests of this crate.

use std::collections::BTreeMap;

use pagetoll_units::Pages;

use crate::bill::{Bill, Draft, Invocation};
use crate::kinds::{Backend, Evidence, System, Unit};
use crate::order::Order;
use crate::provenance::Inputs;
use crate::route::{Route, Unmap};
use crate::row::{Figures, Operation, Row, RowKey};

/// A row of `unmap`.
pub(crate) fn clear(mechanism: Unmap, cost: f64) -> Row {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0);
    Row::new(key, Pages(4), Figures::of_runs(vec![cost]))
}

/// One row of `unmap`, counted in the lab.
pub(crate) fn draft() -> Draft {
    Draft {
        backend: Backend::Lab,
        route: Route::Unmap,
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: BTreeMap::new(),
        order: Order {
            pages: Pages(4),
            batches: vec![1],
            mechanisms: vec![Unmap::Emulate.into()],
            runs: 1,
            program: Vec::new(),
        },
        rows: vec![clear(Unmap::Emulate, 100.0)],
        notes: vec![],
        inputs: Inputs::default(),
    }
}

pub(crate) fn completed(draft: Draft) -> Bill {
    draft.complete(Invocation {
        backend_reason: "ordered by --on lab".into(),
        when: "2026-01-01T00:00:00Z".into(),
        command: "pagetoll bill unmap".into(),
        version: "0.1.0".into(),
    })
}
