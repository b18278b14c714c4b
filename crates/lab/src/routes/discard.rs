//! The discard route on real kernels: memory of a guest of the lab's guest is given back.
//!
//! One kind of boot for each run, that of the demand route; `guests/discard-probe` makes a machine of one vCPU by KVM,
//! discards every second chunk of its memory, and counts the calls and the touches after them.

mod guest;
mod rows;

use pagetoll_backend::Error as BackendError;
use pagetoll_bill::row::Backing;
use pagetoll_bill::{Limits, Order, Row, Spec};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::DiscardStep;

use crate::kernels::Builder;
use crate::kvm_host::{self, Probed};
use crate::linux::Probe;
use crate::request::Request;

use guest::{DiscardRun, PROBE};

/// Pages are those of the guest. By default 4 MiB: a phase ends before the next timer tick, or soon after it. At most as
/// many as the sum of their words can tell apart. Batches are of 4 KiB, 64 KiB and 2 MiB.
const LIMITS: Limits = Limits::pages(1024, 1 << 15)
    .batches(&[1, 16, 512], 512)
    .runs(1, 100);
/// Pages of two chunks of the largest size.
const UNIT: u64 = 1024;

const NOTES: [&str; 4] = [
    "discard: every second chunk, while the guest stands still; single calls are one in the middle of the first 2 MiB",
    "touch-beside: the guest reads what was not discarded; touch-again: it writes to what was",
    "stage-2-fault: exits of the guest, but for the one that ends its program and those that the same reads had before the calls",
    "clearing: instructions for a page of 4 KiB as the kernel clears it",
];

/// Resolves an order, and the backings of its memory.
///
/// # Errors
/// Errors of [`Request::new`]; pages that are not whole pairs of 2 MiB; chunks that are no power of two.
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<(Request, Discard), BackendError> {
    let request = kvm_host::request(spec, &LIMITS, builder)?;
    kvm_host::check_pages(&request.order, UNIT)?;
    kvm_host::check_batches(&request.order, "blocks of pages")?;
    let wanted = match spec.discard.backings.as_slice() {
        [] => Backing::ALL,
        backings => backings,
    };
    let backings = Backing::ALL.iter().copied();
    let backings = backings.filter(|backing| wanted.contains(backing));
    let backings = backings.collect();
    Ok((request, Discard { backings }))
}

/// Discards of memory of these backings.
pub(crate) struct Discard {
    pub(crate) backings: Vec<Backing>,
}

impl Probed for Discard {
    type Step = DiscardStep;
    type Run = DiscardRun;
    const PROBE: &'static Probe = &PROBE;
    const NOTES: &'static [&'static str] = &NOTES;

    fn steps(&self, order: &Order) -> Vec<DiscardStep> {
        guest::steps_of_probe(order, &self.backings)
    }

    fn take(run: &mut DiscardRun, report: Report) {
        guest::take(run, report);
    }

    fn rows(&self, order: &Order, found: &[DiscardRun]) -> Vec<Row> {
        rows::rows(order, &self.backings, found)
    }

    fn step_of(first: &DiscardRun, row: &Row) -> Option<usize> {
        rows::step_of(first, row)
    }
}
