//! The irq route: events are enabled again while none is pending, and while one is.
//!
//! The pending event is an IPI of the vCPU to itself with a handler that counts, so the figures of `one-pending` hold
//! its delivery and the handler too.

use pagetoll_bill::route::Irq;
use pagetoll_bill::{Operation, Order, Row};
use pagetoll_protocol::step::{Cell, Step};

use crate::findings::Findings;
use crate::plan::Abilities;
use crate::repeated::RepeatedRoute;
use crate::routes::Billing;
use crate::session::Session;

/// Sessions and rows of the route `irq`.
pub const BILLING: Billing = Billing {
    sessions,
    rows,
    notes: &[
        "an item is one enabling and the disabling before the next; what user space sees enables events at least once \
         for each call, and kernels since 3.4 do what if-pending does",
        "one-pending: delivery and handler are in the cost, and the iret hypercall that ends the handler is a crossing",
    ],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

const REPEATED: RepeatedRoute = RepeatedRoute {
    operations: &[Operation::NonePending, Operation::OnePending],
    observed: &[Operation::Getppid, Operation::PipeByte],
    pv32_parts: &[],
    work: "unmask-and-deliver",
    step: |operation, mechanism| Step::Repeat(Cell::new(operation, mechanism)),
    user_step: Step::Call,
    warm_up: None,
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    REPEATED.sessions::<Irq>(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows::<Irq>(order, findings)
}
