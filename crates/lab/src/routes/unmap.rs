//! The unmap route on a real Xen and a real Linux.
//!
//! Three kinds of boot: dom0 under Xen, counting; the same kernel without Xen, counting; dom0 with two vCPUs, racing.
//! Each run of an order is a boot of its own of the first two.

mod plan;
mod rows;

use pagetoll_bill::{Order, Route};

use crate::dom0::collect::{Job, counting_jobs, pv32_jobs, race_job};
use crate::dom0::plan::Abilities;
use crate::dom0::pv32;
use crate::routes::Travel;

/// How the lab travels the route.
pub(crate) const TRAVEL: Travel = Travel {
    jobs,
    rows: rows::rows,
    notes: &[],
    counts_flushes: false,
};

fn jobs(order: &Order, abilities: Abilities) -> Vec<Job> {
    let mut jobs = counting_jobs(order, abilities, &plan::steps(order));
    if abilities.probe {
        jobs.push(race_job(order, plan::race(order)));
    }
    if pv32::is_ordered(Route::Unmap, order) {
        jobs.extend(pv32_jobs(order, &plan::pv32(order)));
    }
    jobs
}
