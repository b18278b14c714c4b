//! The unmap route on a real Xen and a real Linux.
//!
//! Four kinds of boot: dom0 under Xen, counting; dom0 with another domain's memory, counting; the same kernel without
//! Xen, counting; dom0 with two vCPUs, racing. Each run of an order is a boot of its own of all but the last.

mod plan;
mod rows;

use pagetoll_bill::Order;

use crate::plan::Abilities;
use crate::routes::Billing;
use crate::session::{self, Session};

pub(crate) const BILLING: Billing = Billing {
    sessions,
    rows: rows::rows,
    notes: &[],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    let mut all = session::counting(order, abilities, &plan::steps(order));
    all.extend(session::foreign(order, &plan::foreign(order, abilities)));
    if abilities.probe {
        all.push(session::race(plan::race(order)));
    }
    if order.needs_pv32() {
        all.extend(session::pv32(order, &plan::pv32(order)));
    }
    all
}
