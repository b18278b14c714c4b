//! The switch route: TLS descriptors at a context switch between threads that share none, two, or all three of them.
//!
//! The probe updates real entries of the CPU's GDT; the rest of a context switch is in what user space sees only.

use pagetoll_bill::route::Switch;
use pagetoll_bill::{Operation, Order, Row};
use pagetoll_protocol::step::{Cell, Step};

use crate::findings::Findings;
use crate::plan::Abilities;
use crate::repeated::RepeatedRoute;
use crate::routes::Billing;
use crate::session::Session;

/// Sessions and rows of the route `switch`.
pub const BILLING: Billing = Billing {
    sessions,
    rows,
    notes: &[
        "context-switch: two processes pass a byte to and fro through pipes on one CPU; kernels since 3.6 do what \
         if-changed does, and none of the descriptors of these two differ",
    ],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

const REPEATED: RepeatedRoute = RepeatedRoute {
    operations: &[
        Operation::NoneChanged,
        Operation::OneChanged,
        Operation::AllChanged,
    ],
    observed: &[Operation::ContextSwitch],
    pv32_parts: &[],
    work: "load-descriptors",
    step: |operation, mechanism| Step::Repeat(Cell::new(operation, mechanism)),
    user_step: Step::Call,
    warm_up: None,
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    REPEATED.sessions::<Switch>(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows::<Switch>(order, findings)
}
