//! The demand route on real kernels: a guest of the lab's guest touches memory that has to be brought in.
//!
//! One kind of boot for each run: Linux without Xen on a processor that QEMU gives AMD's virtualisation, where
//! `guests/demand-probe` makes a machine of one vCPU by KVM. Everything that this machine, KVM and the probe's threads do
//! is counted, on the one CPU that they share. What a page costs to fetch from afar is not in it: it is there in memory.

mod check;
pub mod conformance;
mod guest;
mod rows;

use pagetoll_backend::Error as BackendError;
use pagetoll_bill::{Limits, Order, Row, Spec};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::DemandStep;

use crate::kernels::Builder;
use crate::kvm_host::{self, Probed};
use crate::linux::Probe;
use crate::request::Request;

pub use check::check;
use guest::{DemandRun, PROBE};

/// At most 1 GiB of pages, batches of which each thread has a copy at hand, and more runs than are of use. By default
/// 16 MiB, of which each page costs tens of thousands of instructions several times.
const LIMITS: Limits = Limits::pages(4096, 1 << 18)
    .batches(&[1, 16], 512)
    .runs(1, 100);

/// Resolves an order.
///
/// # Errors
/// As [`Request::new`].
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<Request, BackendError> {
    kvm_host::request(spec, &LIMITS, builder)
}

/// Notes of every bill of this route.
const NOTES: [&str; 5] = [
    "crossings: exits of the vCPU for whatever reason, by KVM's own statistics; thread switches and messages beside them",
    "uffd: one reader, which does nothing but read, copy and wake; the vCPU's thread and the reader share the one CPU",
    "exit-on-missing: a reader stands by for what KVM and system calls touch; the vCPU's thread copies and wakes nobody",
    "batch: the missing page and those that follow it are populated at once; the guest touches one after the other",
    "tolls of an exit, a return to user space, a copy, and sleeping and waking are counted by themselves in the same boot",
];

/// Paging in on demand.
pub(crate) struct Demand;

impl Probed for Demand {
    type Step = DemandStep;
    type Run = DemandRun;
    const PROBE: &'static Probe = &PROBE;
    const NOTES: &'static [&'static str] = &NOTES;

    fn steps(&self, order: &Order) -> Vec<DemandStep> {
        guest::steps_of_probe(order)
    }

    fn take(run: &mut DemandRun, report: Report) {
        guest::take(run, report);
    }

    fn is_whole(run: &DemandRun) -> bool {
        !run.parts.is_empty()
    }

    fn rows(&self, order: &Order, found: &[DemandRun]) -> Vec<Row> {
        rows::rows(order, found)
    }

    fn step_of(first: &DemandRun, row: &Row) -> Option<usize> {
        rows::step_of(first, row)
    }
}
