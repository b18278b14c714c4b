//! The fault route: a page-table entry that was empty is set, as a page fault does at its end.
//!
//! The probe sets the entries of pages that are there, so what else a fault costs is not in its figures; what user
//! space sees has all of it.

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
        "a 64-bit guest crosses into Xen once for each entry by both mechanisms, by a trap or by a hypercall: what \
         differs is what a crossing costs; a 32-bit guest's entry is two stores, and so two traps",
    ],
    counts_flushes: false,
};

const REPEATED: Repeated = Repeated {
    route: Route::Fault,
    operations: &["set"],
    observed: &["touch-written", "touch-zero"],
    pv32_parts: &["store-upper-half", "store-lower-half"],
    work: "update",
    step: |operation, mechanism| format!("{operation} {mechanism}"),
    user_step: "user",
    warm_up: Some("user touch-written"),
};

fn jobs(order: &Order, abilities: Abilities) -> Vec<Job> {
    REPEATED.jobs(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows(order, findings)
}
