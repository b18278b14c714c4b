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
use pagetoll_bill::{Arch, Draft, Inputs, Limits, Route, Spec};
use pagetoll_host::{Surroundings, capacity};
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::draft::{Clock, counted, image, part_of_stack};
use crate::error::LabError;
use crate::kernels::Builder;
use crate::linux::check_tools;
use crate::request::{KernelRequest, Request, pages_mib};
use crate::vm;
use crate::vm::machine::{Firmware, Host, Machine, Mode, Variant};

pub use check::check;
use guest::{DemandRun, Materials, PROBE};

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
    let lab = &spec.lab;
    if let (Some(mode), Arch::X86_64) = (lab.kvm_mode, lab.arch.unwrap_or_default()) {
        let problem = format!("--kvm-mode {mode}: expected it with --arch arm64");
        return Err(BackendError::bad_input(problem));
    }
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

/// And of the processor.
const fn note(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => {
            "nested: QEMU's emulated SVM takes no instruction for the world switch itself, so that an exit costs what KVM does"
        }
        Arch::Arm64 => {
            "arm64: instructions compare kernels and mechanisms, never arm64 with x86-64"
        }
    }
}

fn machine(pages: Pages, host: Host) -> Machine {
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxAsHost(host),
        pages_mib: pages_mib(pages),
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}

/// The machine of every boot of an order.
fn machine_of(request: &Request) -> Machine {
    machine(request.order.pages, request.host())
}

/// Bills the route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(
    request: &KernelRequest<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<Billed, LabError> {
    let Request { order, arch, .. } = request.common;
    check_tools(*arch, std::slice::from_ref(&request.kernel))?;
    capacity::require_memory(machine_of(request.common).memory_mib(), "--pages")?;
    let obtain = || {
        let freshness = request.freshness();
        Materials::obtain(&PROBE, &request.kernel, *arch, freshness, *surroundings)
    };
    let clock = Clock::default();
    let mut materials = clock.time("images and builds", obtain)?;
    let profiling = request.common.profiling;
    materials.counter = profiling.counter(*arch, surroundings)?;
    let found = clock.time("boots", || {
        let run = |run| guest::run(request, &materials, run, &clock, *surroundings);
        (1..=order.runs)
            .map(run)
            .collect::<Result<Vec<_>, LabError>>()
    })?;
    let qemu = vm::qemu_version(*arch, surroundings.stop)?;
    let mut draft = draft(request, &materials, &found, qemu)?;
    let stacks = profiling.attach(&mut draft.rows, |row| rows::sample_of(&found, row));
    if let Some(Err(reason)) = &materials.counter {
        draft
            .notes
            .push(format!("what was executed was not counted: {reason}"));
    }
    Ok(clock.billed(draft, stacks))
}

fn draft(
    request: &KernelRequest<'_>,
    materials: &Materials,
    found: &[DemandRun],
    qemu: String,
) -> Result<Draft, LabError> {
    let Request { order, arch, .. } = request.common;
    let image = &materials.kernel.image;
    let hello = found.first().map(|found| &found.hello);
    let linux = hello.map(|hello| hello.linux_version()).unwrap_or_default();
    let stack = [
        ("linux", linux),
        ("linux-release", image.release.clone()),
        ("qemu", qemu),
        ("guest-ram", machine_of(request.common).ram()),
    ];
    let mode = match request.common.host() {
        Host::Svm => None,
        Host::El2(mode) => Some(("kvm-mode", mode.to_string())),
    };
    let stack = stack.into_iter().chain(part_of_stack(*arch)).chain(mode);
    let notes = NOTES.into_iter().chain([note(*arch)]);
    Ok(Draft {
        stack: stack
            .map(|(part, version)| (part.to_owned(), version))
            .collect(),
        rows: rows::rows(order, found),
        notes: notes.map(str::to_owned).collect(),
        inputs: inputs(machine_of(request.common), materials)?,
        ..counted(Route::Demand, order)
    })
}

fn inputs(machine: Machine, materials: &Materials) -> Result<Inputs, LabError> {
    let Materials {
        programs, kernel, ..
    } = materials;
    Ok(Inputs {
        boots: vec![machine.command().to_string()],
        packages: kernel.image.packages.clone(),
        images: vec![
            image("linux", &kernel.image.image)?,
            image("init", &programs.init_file)?,
            image("demand-probe", &programs.probe_file)?,
        ],
        ..Inputs::default()
    })
}
