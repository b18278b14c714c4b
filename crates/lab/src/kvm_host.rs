//! Guests that have guests of their own: a kernel with KVM, and a probe that makes a machine by it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::slice;
use std::time::Duration;

use pagetoll_backend::{Billed, Error as BackendError};
use pagetoll_bill::{Arch, Available, Draft, Inputs, Limits, Order, Row, Spec};
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_protocol::report::{Hello, Report};
use pagetoll_protocol::step;
use pagetoll_pv::session::XenOptions;
use pagetoll_units::Pages;

use crate::draft::{Clock, counted, image, part_of_stack};
use crate::kernels::Builder;
use crate::linux::{Kernel, Modules, NativeBoot, Probe, Programs, check_tools};
use crate::profile::ProbeProfile;
use crate::request::{KernelRequest, Request, pages_mib};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::counter::Counter;
use pagetoll_lab_vm::machine::{Firmware, Host, Machine, Mode, Variant};

/// The module for AMD's virtualisation, which is what QEMU emulates of x86.
pub(crate) const KVM_AMD: Modules = Modules {
    wanted: &["kvm_amd"],
    needed: &["kvm_amd"],
    expected: "a kernel built with CONFIG_KVM_AMD",
};
/// arm64 has KVM built in, or not at all.
const BUILT_IN: Modules = Modules {
    wanted: &[],
    needed: &[],
    expected: "a kernel built with CONFIG_KVM",
};

/// Files of the boots.
pub(crate) struct Materials {
    pub(crate) programs: Programs,
    pub(crate) kernel: Kernel,
    /// The plugin that counts code, where that is wanted.
    pub(crate) counter: Option<Available<Counter>>,
}

impl Materials {
    /// Builds init and a probe, fetches the kernel and finds its modules.
    ///
    /// # Errors
    /// Errors of the builds and of [`Kernel::obtain`].
    pub(crate) fn obtain(
        probe: &'static Probe,
        source: &KernelSource,
        arch: Arch,
        freshness: Freshness,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        let programs = Programs::build(probe, arch, surroundings)?;
        let modules = match arch {
            Arch::X86_64 => &KVM_AMD,
            Arch::Arm64 => &BUILT_IN,
        };
        let mut phase = surroundings.progress.begin("images", 1);
        let kernel = Kernel::obtain(source, arch, modules, freshness, surroundings)?;
        phase.step(&kernel.image.release);
        Ok(Self {
            programs,
            kernel,
            counter: None,
        })
    }

    /// The files of the boots of a request, after a check that this machine can run them.
    ///
    /// # Errors
    /// A machine that lacks something; those of [`Self::obtain`].
    fn of_request(
        probe: &'static Probe,
        request: &KernelRequest<'_>,
        clock: &Clock,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, LabError> {
        let (arch, kernel) = (request.common.arch, &request.kernel);
        check_tools(arch, slice::from_ref(kernel))?;
        capacity::require_memory(machine_of(request.common).memory_mib(), "--pages")?;
        let obtain = || Self::obtain(probe, kernel, arch, request.freshness(), *surroundings);
        let materials = clock.time("images and builds", obtain)?;
        Ok(Self {
            counter: request.common.profiling.counter(arch, surroundings)?,
            ..materials
        })
    }

    /// A note of code that was to be counted and could not be.
    fn uncounted(&self) -> Option<String> {
        let reason = self.counter.as_ref()?.as_ref().err()?;
        Some(format!("what was executed was not counted: {reason}"))
    }
}

/// A route whose probe has a machine of its own.
pub(crate) trait Probed {
    /// A step of its probe.
    type Step: Display;
    /// Findings of a boot.
    type Run: Default;
    const PROBE: &'static Probe;
    /// Notes of every bill of the route.
    const NOTES: &'static [&'static str];

    /// The steps of every boot.
    fn steps(&self, order: &Order) -> Vec<Self::Step>;

    /// Takes a report of the probe among the findings; others are of other routes.
    fn take(run: &mut Self::Run, report: Report);

    /// False for findings that lack what every boot reports.
    fn is_whole(_: &Self::Run) -> bool {
        true
    }

    fn rows(&self, order: &Order, found: &[Self::Run]) -> Vec<Row>;

    /// The step of the first boot in which a row's code was executed.
    fn step_of(first: &Self::Run, row: &Row) -> Option<usize>;
}

/// A boot, and what the probe found.
struct Booted<R> {
    hello: Hello,
    found: R,
    /// Code that was executed, where it was counted.
    profiled: Option<ProbeProfile>,
}

/// Bills a route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill<P: Probed>(
    route: &P,
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
    let materials = Materials::of_request(P::PROBE, request, &clock, surroundings)?;
    let booted = clock.time("boots", || {
        let boot = |run| boot(route, request, &materials, run, &clock, *surroundings);
        (1..=order.runs)
            .map(boot)
            .collect::<Result<Vec<_>, LabError>>()
    })?;
    let parts = booted.into_iter();
    let parts = parts.map(|boot| (boot.found, (boot.hello, boot.profiled)));
    let (found, others): (Vec<_>, Vec<_>) = parts.unzip();
    let (hello, profile) = others.into_iter().next().unzip();
    let profile = profile.flatten();
    let qemu = pagetoll_lab_vm::qemu_version(*arch, surroundings.stop)?;
    let notes = P::NOTES.iter().copied().chain([note(*arch)]);
    let mut draft = Draft {
        stack: stack(request.common, &materials, hello.as_ref(), qemu),
        rows: route.rows(order, &found),
        notes: notes.map(str::to_owned).collect(),
        inputs: inputs(request.common, &materials)?,
        ..counted(request.common.route, order)
    };
    let stacks = profiling.attach(&mut draft.rows, |row| {
        let step = P::step_of(found.first()?, row)?;
        profile.as_ref()?.sample(step, row)
    });
    draft.notes.extend(materials.uncounted());
    Ok(clock.billed(draft, stacks))
}

/// Boots once, runs the steps of the probe, and gathers its findings.
///
/// # Errors
/// Errors of [`NativeBoot::run`]; [`LabError::Malformed`] for a guest that did not report what every one does.
fn boot<P: Probed>(
    route: &P,
    request: &KernelRequest<'_>,
    materials: &Materials,
    run: u32,
    clock: &Clock,
    surroundings: Surroundings<'_>,
) -> Result<Booted<P::Run>, LabError> {
    let name = name_of(request, materials, run);
    let steps = route.steps(&request.common.order);
    let counter = materials.counter.as_ref();
    let counter = counter.and_then(|counter| counter.as_ref().ok());
    let publish = ProbeProfile::publish(counter);
    let boot = NativeBoot {
        name: &name,
        kernel: &materials.kernel,
        programs: &materials.programs,
        machine: machine_of(request.common),
        counter,
        probe_order: step::order(&steps),
        last: slice::from_ref(&publish),
        file: None,
        options: &request.options,
    };
    let guest_run = boot.run(steps.len(), surroundings)?;
    clock.counted_before(guest_run.counted);
    let profiled = ProbeProfile::new(&boot, &guest_run)?;
    let whole = understood::<P>(guest_run.reports);
    let (hello, found) = whole.ok_or_else(|| LabError::Malformed {
        boot: name,
        problem: "it never said hello, or not all that every guest reports".to_owned(),
    })?;
    Ok(Booted {
        hello,
        found,
        profiled,
    })
}

/// The greeting of a guest, and the findings of its probe; `None` of a guest that did not report what every one does.
fn understood<P: Probed>(reports: Vec<Report>) -> Option<(Hello, P::Run)> {
    let mut found = P::Run::default();
    let mut hello = None;
    for report in reports {
        if let Report::Hello(greeting) = report {
            hello = Some(greeting);
        } else {
            P::take(&mut found, report);
        }
    }
    P::is_whole(&found).then_some((hello?, found))
}

/// The name of a boot: the route, the kernel's release, and the number of the run where there are several.
fn name_of(request: &KernelRequest<'_>, materials: &Materials, run: u32) -> String {
    let Request { route, order, .. } = request.common;
    let release = &materials.kernel.image.release;
    match order.runs {
        1 => format!("{route}-{release}"),
        _ => format!("{route}-{release}-{run}"),
    }
}

/// The stack of a bill, with the Linux that a boot reported.
fn stack(
    request: &Request,
    materials: &Materials,
    hello: Option<&Hello>,
    qemu: String,
) -> BTreeMap<String, String> {
    let linux = hello.map(Hello::linux_version).unwrap_or_default();
    let stack = [
        ("linux", linux),
        ("linux-release", materials.kernel.image.release.clone()),
        ("qemu", qemu),
        ("guest-ram", machine_of(request).ram()),
    ];
    let mode = match request.host() {
        Host::Svm => None,
        Host::El2(mode) => Some(("kvm-mode", mode.to_string())),
    };
    let stack = stack.into_iter().chain(part_of_stack(request.arch));
    let stack = stack.chain(mode);
    stack
        .map(|(part, version)| (part.to_owned(), version))
        .collect()
}

/// The files that a bill was made from.
///
/// # Errors
/// A file that cannot be read.
fn inputs(request: &Request, materials: &Materials) -> Result<Inputs, LabError> {
    let Materials {
        programs, kernel, ..
    } = materials;
    Ok(Inputs {
        boots: vec![machine_of(request).command().to_string()],
        packages: kernel.image.packages.clone(),
        images: vec![
            image("linux", &kernel.image.image)?,
            image("init", &programs.init_file)?,
            image(programs.probe_name(), &programs.probe_file)?,
        ],
        ..Inputs::default()
    })
}

/// A note on the processor.
pub(crate) const fn note(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => {
            "nested: QEMU's emulated SVM takes no instruction for the world switch itself, so that an exit costs what KVM does"
        }
        Arch::Arm64 => {
            "arm64: instructions compare kernels and mechanisms, never arm64 with x86-64"
        }
    }
}

/// Three minutes for what does not depend on the pages, and five milliseconds for each, at least four times what the
/// longest step takes.
fn timeout(pages: Pages) -> Duration {
    Duration::from_secs(180) + Duration::from_millis(5 * pages.get())
}

/// Resolves what orders of these routes have in common.
///
/// # Errors
/// Errors of [`Request::new`]; `--kvm-mode` on x86-64.
pub(crate) fn request(
    spec: &Spec,
    limits: &Limits,
    builder: Option<&'static dyn Builder>,
) -> Result<Request, BackendError> {
    check_mode(spec)?;
    Request::new(spec, limits, timeout, builder)
}

/// Refuses pages that are not so many, or a multiple.
pub(crate) fn check_pages(order: &Order, unit: u64) -> Result<(), BackendError> {
    let pages = order.pages.get();
    if pages.is_multiple_of(unit) {
        return Ok(());
    }
    let problem = format!("--pages {pages}: expected a multiple of {unit}");
    Err(BackendError::bad_input(problem))
}

/// Refuses batches that are no power of two; `aligned` says what they are.
pub(crate) fn check_batches(order: &Order, aligned: &str) -> Result<(), BackendError> {
    match order.batches.iter().find(|batch| !batch.is_power_of_two()) {
        Some(batch) => Err(BackendError::bad_input(format!(
            "--batch {batch}: expected a power of two, as {aligned} are aligned"
        ))),
        None => Ok(()),
    }
}

/// Refuses a mode of KVM that the processor does not have.
fn check_mode(spec: &Spec) -> Result<(), BackendError> {
    let lab = &spec.lab;
    let (Some(mode), Arch::X86_64) = (lab.kvm_mode, lab.arch.unwrap_or_default()) else {
        return Ok(());
    };
    let problem = format!("--kvm-mode {mode}: expected it with --arch arm64");
    Err(BackendError::bad_input(problem))
}

/// The machine of a boot with so many pages.
pub(crate) fn machine(pages: Pages, host: Host) -> Machine {
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxAsHost(host),
        pages_mib: pages_mib(pages),
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}

/// The machine of every boot of an order.
pub(crate) fn machine_of(request: &Request) -> Machine {
    machine(request.order.pages, request.host())
}

#[cfg(test)]
mod tests {
    use pagetoll_protocol::report::DemandParts;

    use super::*;
    use crate::routes::demand::Demand;
    use crate::routes::dirty::Dirty;

    #[test]
    fn a_guest_that_does_not_report_what_every_one_does_is_malformed() {
        let hello = || Report::Hello(Hello::default());
        assert!(understood::<Dirty>(vec![hello()]).is_some());
        assert!(understood::<Dirty>(vec![Report::Done]).is_none());
        let parts = || Report::DemandParts(DemandParts::default());
        assert!(understood::<Demand>(vec![hello(), parts()]).is_some());
        assert!(understood::<Demand>(vec![hello()]).is_none());
        assert!(understood::<Demand>(vec![parts()]).is_none());
    }
}
