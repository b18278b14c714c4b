//! The fault route: a page-table entry that was empty is set, as a page fault does at its end.
//!
//! The probe sets the entries of pages that are there, so what else a fault costs is not in its figures; what user
//! space sees has all of it.

use pagetoll_bill::Operation;
use pagetoll_bill::route::Fault;
use pagetoll_bill::row::Baseline;

use crate::repeated::RepeatedRoute;
use crate::routes::Billing;
use pagetoll_protocol::step::Step;

pub(crate) const BILLING: Billing = Billing {
    sessions: |order, abilities| REPEATED.sessions::<Fault>(order, abilities),
    rows: |order, findings| REPEATED.rows::<Fault>(order, findings),
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
