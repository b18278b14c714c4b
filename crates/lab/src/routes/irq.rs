//! The irq route: events are enabled again while none is pending, and while one is.
//!
//! The pending event is an IPI of the vCPU to itself with a handler that counts, so the figures of `one-pending` hold
//! its delivery and the handler too.

use pagetoll_bill::{Order, Route, Row};

use crate::dom0::collect::Job;
use crate::dom0::findings::Findings;
use crate::dom0::plan::Abilities;
use crate::dom0::repeated::Repeated;
use crate::routes::Travel;

/// How the lab travels the route.
pub(crate) const TRAVEL: Travel = Travel {
    jobs,
    rows,
    notes: &[
        "an item is one enabling and the disabling before the next; what user space sees enables events at least once \
         for each call, and kernels since 3.4 do what if-pending does",
        "one-pending: delivery and handler are in the cost, and the iret hypercall that ends the handler is a crossing",
    ],
    counts_flushes: false,
};

const REPEATED: Repeated = Repeated {
    route: Route::Irq,
    operations: &["none-pending", "one-pending"],
    observed: &["getppid", "pipe-byte"],
    pv32_parts: &[],
    work: "unmask-and-deliver",
    step: |operation, mechanism| format!("repeat {operation} {mechanism}"),
    user_step: "call",
    warm_up: None,
};

fn jobs(order: &Order, abilities: Abilities) -> Vec<Job> {
    REPEATED.jobs(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows(order, findings)
}
