//! The restore route on real kernels: memory of a guest of the lab's guest is brought back from an image.
//!
//! One kind of boot for each run, that of the demand route; `guests/restore-probe` makes a machine of one vCPU by KVM, brings
//! its memory back from a file in the page cache, and counts until each of the guest's boundaries. What an image costs to
//! read from storage is not in it, and nothing runs beside the guest: there is one CPU.

mod guest;
mod rows;

use pagetoll_backend::Error as BackendError;
use pagetoll_bill::route::lab::Restore as Mechanism;
use pagetoll_bill::{Limits, Order, Row, Spec};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::RestoreStep;

use crate::kernels::Builder;
use crate::kvm_host::{self, Probed};
use crate::linux::Probe;
use crate::request::Request;

use guest::{PROBE, RestoreRun};

/// Pages are those of the image. By default 4 MiB: what happens between two boundaries is counted in parts that are shorter
/// than a tick. At most 32 MiB, of which the guest holds the image, what its memory must hold, and the memory.
const LIMITS: Limits = Limits::pages(1024, 1 << 13)
    .batches(&[1, 16, 64], 512)
    .runs(1, 100);
/// Batch of mechanisms beside `uffd`, which alone shows the slope.
const BATCH: u32 = 64;
/// Pages of a page of 2 MiB.
const HUGE: u64 = 512;

const NOTES: [&str; 5] = [
    "costs count from the order to restore, when the machine is there and has run, and only its memory is missing",
    "image: a file in a ramfs, all of it in the page cache; working set: an eighth of it in random order, about half of it written; \
     then the guest reads every other page in order",
    "uffd, replay, continue, hugetlb-2m: one reader, which shares the one CPU with the vCPU's thread",
    "exit: the vCPU's thread knows the page by a register of the guest; a VMM that has to decode the instruction pays for that as well",
    "replay: as many pages as the working set has, of which 90 % are touched again",
];

/// Resolves an order.
///
/// # Errors
/// Errors of [`Request::new`]; pages that are not whole pages of 2 MiB; batches that are no power of two.
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<(Request, Restore), BackendError> {
    let request = kvm_host::request(spec, &LIMITS, builder)?;
    kvm_host::check_pages(&request.order, HUGE)?;
    kvm_host::check_batches(&request.order, "batches of pages")?;
    let batches = match spec.batches {
        Some(_) => request.order.batches.clone(),
        None => vec![BATCH],
    };
    Ok((request, Restore { batches }))
}

/// Restores, and the batches of mechanisms beside `uffd`.
pub(crate) struct Restore {
    batches: Vec<u32>,
}

/// A mechanism, and the pages that it copies at once at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    mechanism: Mechanism,
    batch: u32,
}

impl Restore {
    /// The lines of an order, in the order of its rows.
    fn lines(&self, order: &Order) -> Vec<Line> {
        let mut lines = Vec::new();
        for mechanism in order.of::<Mechanism>() {
            let is_batched = pagetoll_bill::Mechanism::from(mechanism).is_batched();
            let batches = match is_batched && mechanism != Mechanism::Uffd {
                true => self.batches.as_slice(),
                false => order.batches_of(mechanism),
            };
            lines.extend(batches.iter().map(|&batch| Line { mechanism, batch }));
        }
        lines
    }
}

impl Probed for Restore {
    type Step = RestoreStep;
    type Run = RestoreRun;
    const PROBE: &'static Probe = &PROBE;
    const NOTES: &'static [&'static str] = &NOTES;

    fn steps(&self, order: &Order) -> Vec<RestoreStep> {
        guest::steps_of_probe(order.pages, &self.lines(order))
    }

    fn take(run: &mut RestoreRun, report: Report) {
        guest::take(run, report);
    }

    fn rows(&self, order: &Order, found: &[RestoreRun]) -> Vec<Row> {
        rows::rows(order.pages, &self.lines(order), found)
    }

    fn step_of(first: &RestoreRun, row: &Row) -> Option<usize> {
        rows::step_of(first, row)
    }
}
