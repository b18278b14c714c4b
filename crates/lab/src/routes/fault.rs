//! The fault route: a page-table entry that was empty is set, as a page fault does at its end.
//!
//! The probe sets the entries of pages that are there, so what else a fault costs is not in its figures; what user
//! space sees has all of it.

use pagetoll_bill::route::Fault;
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{Operation, Order, Row};

use crate::dom0::collect::Job;
use crate::dom0::findings::Findings;
use crate::dom0::plan::Abilities;
use crate::dom0::repeated::Repeated;
use crate::guest::step::Step;
use crate::routes::Billing;

/// How the lab bills the route.
pub(crate) const BILLING: Billing = Billing {
    jobs,
    rows,
    notes: &[
        "a 64-bit guest crosses into Xen once for each entry by both mechanisms, by a trap or by a hypercall: what \
         differs is what a crossing costs; a 32-bit guest's entry is two stores, and so two traps",
    ],
    counts_flushes: false,
};

const REPEATED: Repeated = Repeated {
    operations: &[Operation::Set],
    observed: &[Operation::TouchWritten, Operation::TouchZero],
    pv32_parts: &[Baseline::StoreUpperHalf, Baseline::StoreLowerHalf],
    work: "update",
    step: |_set, mechanism| Step::Set(mechanism.into()),
    user_step: Step::User,
    warm_up: Some(Step::User(Operation::TouchWritten)),
};

fn jobs(order: &Order, abilities: Abilities) -> Vec<Job> {
    REPEATED.jobs::<Fault>(order, abilities)
}

fn rows(order: &Order, findings: &Findings) -> Vec<Row> {
    REPEATED.rows::<Fault>(order, findings)
}
