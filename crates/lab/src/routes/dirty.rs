//! The dirty route on real kernels: which pages a guest of the lab's guest has written.
//!
//! One kind of boot for each run, that of the demand route; `guests/dirty-probe` makes a machine of one vCPU by KVM, and
//! counts each phase of finding the pages that it writes.

mod guest;
mod rows;

use pagetoll_backend::Error as BackendError;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Limits, Order, Row, Spec};
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::DirtyStep;

use crate::kernels::Builder;
use crate::kvm_host::{self, Probed};
use crate::linux::Probe;
use crate::request::Request;

use guest::{DirtyRun, PROBE};

/// At most half as many pages as the largest ring has entries, and more runs than are of use. By default 4 MiB: a phase of KVM ends
/// before the next timer tick.
const LIMITS: Limits = Limits::pages(1024, 1 << 15).runs(1, 100);
/// Pages of a page of 2 MiB.
const HUGE: u64 = 512;
/// The shapes of memory that are billed, and those that are where nothing is said.
const FOLIOS: [Folio; 3] = [Folio::Pages4k, Folio::Thp, Folio::Pages2m];
const DEFAULT_FOLIOS: [Folio; 2] = [Folio::Pages4k, Folio::Thp];

const NOTES: [&str; 6] = [
    "rewrite-untracked: the guest writes every page, mapped and untracked, once: a write that costs more beside it is tracking's",
    "initially-set: the first write is not tracked; KVM_CLEAR_DIRTY_LOG takes 512 pages a call",
    "ring: of 65536 entries, so that it is never full; harvest reads it, re-arm is KVM_RESET_DIRTY_RINGS",
    "rwp: pages that were read are reported, too; its memory is a memfd, which the host reads by a second mapping",
    "after-disarm: every page is tracked when tracking ends, and written once then",
    "lost: the guest writes before each harvest, and between the calls that harvest, clear and copy; the control copies before it clears",
];

/// Resolves an order, and the shapes of its memory.
///
/// # Errors
/// Errors of [`Request::new`]; pages that are not whole pages of 2 MiB; memory of a shape that is not tracked.
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<(Request, Dirty), BackendError> {
    let request = kvm_host::request(spec, &LIMITS, builder)?;
    kvm_host::check_pages(&request.order, HUGE)?;
    if let Some(other) = spec.folios.iter().find(|folio| !FOLIOS.contains(folio)) {
        let problem = format!("--folio {other}: expected 4K, THP or 2M on route dirty");
        return Err(BackendError::bad_input(problem));
    }
    let wanted = match spec.folios.as_slice() {
        [] => &DEFAULT_FOLIOS,
        folios => folios,
    };
    let folios = FOLIOS.into_iter().filter(|folio| wanted.contains(folio));
    let folios = folios.collect();
    Ok((request, Dirty { folios }))
}

/// Finding the pages that were written in memory of these shapes.
pub(crate) struct Dirty {
    pub(crate) folios: Vec<Folio>,
}

impl Probed for Dirty {
    type Step = DirtyStep;
    type Run = DirtyRun;
    const PROBE: &'static Probe = &PROBE;
    const NOTES: &'static [&'static str] = &NOTES;

    fn steps(&self, order: &Order) -> Vec<DirtyStep> {
        guest::steps_of_probe(order, &self.folios)
    }

    fn take(run: &mut DirtyRun, report: Report) {
        guest::take(run, report);
    }

    fn rows(&self, order: &Order, found: &[DirtyRun]) -> Vec<Row> {
        rows::rows(order, &self.folios, found)
    }

    fn step_of(first: &DirtyRun, row: &Row) -> Option<usize> {
        rows::step_of(first, row)
    }
}
