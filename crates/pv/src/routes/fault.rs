//! The fault route: a page-table entry that was empty is set, as a page fault does at its end.
//!
//! The probe sets the entries of pages that are there, so what else a fault costs is not in its figures; what user
//! space sees has all of it.

use pagetoll_bill::route::Fault;
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{Operation, Order, Row};
use pagetoll_protocol::step::Step;

use crate::findings::Findings;
use crate::plan::Abilities;
use crate::repeated::RepeatedRoute;
use crate::routes::Billing;
use crate::session::Session;

/// Sessions and rows of the route `fault`.
pub const BILLING: Billing = Billing {
    sessions,
    rows,
    notes: &[
        "a 64-bit guest crosses into Xen once for each entry by both mechanisms, by a trap or by a hypercall: what \
         differs is what a crossing costs; a 32-bit guest's entry is two stores, and so two traps",
    ],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

const REPEATED: RepeatedRoute = RepeatedRoute {
    operations: &[Operation::Set],
    observed: &[Operation::TouchWritten, Operation::TouchZero],
    pv32_parts: &[Baseline::StoreUpperHalf, Baseline::StoreLowerHalf],
    work: "update",
    step: |_set, mechanism| Step::Set(mechanism.into()),
    user_step: Step::User,
    warm_up: Some(Step::User(Operation::TouchWritten)),
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    REPEATED.sessions::<Fault>(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows::<Fault>(order, findings)
}
