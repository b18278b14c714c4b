//! The dirty route on real kernels: which pages a guest of the lab's guest has written.
//!
//! One kind of boot for each run, that of the demand route; `guests/dirty-probe` makes a machine of one vCPU by KVM, and
//! counts each phase of finding the pages that it writes.

mod guest;
mod rows;

use std::time::Duration;

use pagetoll_backend::{Billed, Error as BackendError};
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Draft, Limits, Route, Spec};
use pagetoll_host::Surroundings;
use pagetoll_units::Pages;

use crate::draft::{Clock, counted};
use crate::error::LabError;
use crate::kernels::Builder;
use crate::kvm_host::{self, Materials, note};
use crate::request::{KernelRequest, Request};
use crate::vm;

use guest::{DirtyRun, PROBE};

/// At most half as many pages as the largest ring has entries, and more runs than are of use. By default 4 MiB: a phase of KVM ends
/// before the next timer tick.
const LIMITS: Limits = Limits {
    pages: Pages(1024),
    most_pages: Pages(1 << 15),
    most_runs: 100,
    ..Limits::SINGLE
};
/// Pages of a page of 2 MiB.
const HUGE: u64 = 512;
/// The shapes of memory that are billed, and those that are where nothing is said.
const FOLIOS: [Folio; 3] = [Folio::Pages4k, Folio::Thp, Folio::Pages2m];
const DEFAULT_FOLIOS: [Folio; 2] = [Folio::Pages4k, Folio::Thp];

const NOTES: [&str; 5] = [
    "rewrite-untracked: the guest writes every page, mapped and untracked, once: a write that costs more beside it is tracking's",
    "initially-set: the first write is not tracked; KVM_CLEAR_DIRTY_LOG takes 512 pages a call",
    "ring: of 65536 entries, so that it is never full; harvest reads it, re-arm is KVM_RESET_DIRTY_RINGS",
    "after-disarm: every page is tracked when tracking ends, and written once then",
    "lost: the guest writes before each harvest, and between the calls that harvest, clear and copy; the control copies before it clears",
];

/// Three minutes for what does not depend on the pages, and five milliseconds for each, at least four times what the
/// longest step takes.
fn timeout(pages: Pages) -> Duration {
    Duration::from_secs(180) + Duration::from_millis(5 * pages.get())
}

/// Resolves an order, and the shapes of its memory.
///
/// # Errors
/// Errors of [`Request::new`]; pages that are not whole pages of 2 MiB; memory of a shape that is not tracked.
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<(Request, Vec<Folio>), BackendError> {
    kvm_host::check_mode(spec)?;
    let request = Request::new(spec, &LIMITS, timeout, builder)?;
    let pages = request.order.pages.get();
    if !pages.is_multiple_of(HUGE) {
        let problem = format!("--pages {pages}: expected a multiple of {HUGE}");
        return Err(BackendError::bad_input(problem));
    }
    if let Some(other) = spec.folios.iter().find(|folio| !FOLIOS.contains(folio)) {
        let problem = format!("--folio {other}: expected 4K, THP or 2M on route dirty");
        return Err(BackendError::bad_input(problem));
    }
    let wanted = match spec.folios.as_slice() {
        [] => &DEFAULT_FOLIOS,
        folios => folios,
    };
    let folios = FOLIOS.into_iter().filter(|folio| wanted.contains(folio));
    Ok((request, folios.collect()))
}

/// Bills the route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(
    folios: &[Folio],
    request: &KernelRequest<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<Billed, LabError> {
    let Request {
        order,
        arch,
        profiling,
        ..
    } = request.common;
    let clock = Clock::default();
    let materials = Materials::of_request(&PROBE, request, &clock, surroundings)?;
    let found = clock.time("boots", || {
        let run = |run| guest::run(folios, request, &materials, run, &clock, *surroundings);
        (1..=order.runs)
            .map(run)
            .collect::<Result<Vec<_>, LabError>>()
    })?;
    let qemu = vm::qemu_version(*arch, surroundings.stop)?;
    let mut draft = draft(folios, request, &materials, &found, qemu)?;
    let stacks = profiling.attach(&mut draft.rows, |row| rows::sample_of(&found, row));
    draft.notes.extend(materials.uncounted());
    Ok(clock.billed(draft, stacks))
}

fn draft(
    folios: &[Folio],
    request: &KernelRequest<'_>,
    materials: &Materials,
    found: &[DirtyRun],
    qemu: String,
) -> Result<Draft, LabError> {
    let Request { order, arch, .. } = request.common;
    let hello = found.first().map(|found| &found.hello);
    let notes = NOTES.into_iter().chain([note(*arch)]);
    Ok(Draft {
        stack: kvm_host::stack(request.common, materials, hello, qemu),
        rows: rows::rows(order, folios, found),
        notes: notes.map(str::to_owned).collect(),
        inputs: kvm_host::inputs(request.common, materials)?,
        ..counted(Route::Dirty, order)
    })
}
