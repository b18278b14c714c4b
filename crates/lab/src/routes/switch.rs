//! The switch route: TLS descriptors at a context switch between threads that share none, two, or all three of them.
//!
//! The probe updates real entries of the CPU's GDT; the rest of a context switch is in what user space sees only.

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
        "context-switch: two processes pass a byte to and fro through pipes on one CPU; kernels since 3.6 do what \
         if-changed does, and none of the descriptors of these two differ",
    ],
    counts_flushes: false,
};

const REPEATED: Repeated = Repeated {
    route: Route::Switch,
    operations: &["none-changed", "one-changed", "all-changed"],
    observed: &["context-switch"],
    pv32_parts: &[],
    work: "load-descriptors",
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
