//! The demand route on real kernels: a guest of the lab's guest touches memory that has to be brought in.
//!
//! One kind of boot for each run: Linux without Xen on a processor that QEMU gives AMD's virtualisation, where
//! `guests/demand-probe` makes a machine of one vCPU by KVM. Everything that this machine, KVM and the probe's threads do
//! is counted, on the one CPU that they share. What a page costs to fetch from afar is not in it: it is there in memory.

mod check;
pub mod conformance;
mod guest;
mod rows;

use std::time::Duration;

use pagetoll_backend::{Billed, Error as BackendError};
use pagetoll_bill::{Draft, Limits, Route, Spec};
use pagetoll_host::Surroundings;
use pagetoll_units::Pages;

use crate::draft::{Clock, counted};
use crate::error::LabError;
use crate::kernels::Builder;
use crate::kvm_host::{self, Materials, note};
use crate::request::{KernelRequest, Request};
use crate::vm;

pub use check::check;
use guest::{DemandRun, PROBE};

/// At most 1 GiB of pages, batches of which each thread has a copy at hand, and more runs than are of use. By default
/// 16 MiB, of which each page costs tens of thousands of instructions several times.
const LIMITS: Limits = Limits {
    pages: Pages(4096),
    most_pages: Pages(1 << 18),
    batches: &[1, 16],
    most_batch: 512,
    most_runs: 100,
    ..Limits::SINGLE
};

/// Three minutes for what does not depend on the pages, and five milliseconds for each, at least four times what the
/// longest step takes.
fn timeout(pages: Pages) -> Duration {
    Duration::from_secs(180) + Duration::from_millis(5 * pages.get())
}

/// Resolves an order.
///
/// # Errors
/// As [`Request::new`].
pub(crate) fn request(
    spec: &Spec,
    builder: Option<&'static dyn Builder>,
) -> Result<Request, BackendError> {
    kvm_host::check_mode(spec)?;
    Request::new(spec, &LIMITS, timeout, builder)
}

/// Notes of every bill of this route.
const NOTES: [&str; 5] = [
    "crossings: exits of the vCPU for whatever reason, by KVM's own statistics; thread switches and messages beside them",
    "uffd: one reader, which does nothing but read, copy and wake; the vCPU's thread and the reader share the one CPU",
    "exit-on-missing: a reader stands by for what KVM and system calls touch; the vCPU's thread copies and wakes nobody",
    "batch: the missing page and those that follow it are populated at once; the guest touches one after the other",
    "tolls of an exit, a return to user space, a copy, and sleeping and waking are counted by themselves in the same boot",
];

/// Bills the route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(
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
        let run = |run| guest::run(request, &materials, run, &clock, *surroundings);
        (1..=order.runs)
            .map(run)
            .collect::<Result<Vec<_>, LabError>>()
    })?;
    let qemu = vm::qemu_version(*arch, surroundings.stop)?;
    let mut draft = draft(request, &materials, &found, qemu)?;
    let stacks = profiling.attach(&mut draft.rows, |row| rows::sample_of(&found, row));
    draft.notes.extend(materials.uncounted());
    Ok(clock.billed(draft, stacks))
}

fn draft(
    request: &KernelRequest<'_>,
    materials: &Materials,
    found: &[DemandRun],
    qemu: String,
) -> Result<Draft, LabError> {
    let Request { order, arch, .. } = request.common;
    let hello = found.first().map(|found| &found.hello);
    let notes = NOTES.into_iter().chain([note(*arch)]);
    Ok(Draft {
        stack: kvm_host::stack(request.common, materials, hello, qemu),
        rows: rows::rows(order, found),
        notes: notes.map(str::to_owned).collect(),
        inputs: kvm_host::inputs(request.common, materials)?,
        ..counted(Route::Demand, order)
    })
}
