//! From a request to a draft for the routes of a dom0: images, boots, rows, and what exactly was run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pagetoll_backend::{Billed, Stop};
use pagetoll_bill::{Arch, Draft, Inputs, Order, Row, Unavailable};
use pagetoll_host::{Surroundings, capacity};
use pagetoll_images::kernel::dom0::Part;
use pagetoll_images::xen::XenImage;
use pagetoll_pv::findings::Findings;
use pagetoll_pv::plan::{Abilities, Trace};
use pagetoll_pv::routes::Billing;

use crate::clock::Clock;
use crate::dom0::boots::{Collect, Collected, Job};
use crate::dom0::materials::Materials;
use crate::draft::{counted, image};
use crate::error::LabError;
use crate::profile::{self, Profiling};
use crate::request::Bench;
use crate::vm::counter::{Counter, Detail};

/// Bills a route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(
    billing: &Billing,
    bench: &Bench<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<Billed, LabError> {
    check_host(bench, billing)?;
    let order = &bench.request.order;
    let clock = Clock::default();
    let materials = obtain(billing, bench, &clock, surroundings)?;
    let mut jobs = jobs(billing, order, materials.abilities());
    if bench.request.profiling != Profiling::No {
        jobs.extend(Job::of_symbols(&jobs));
    }
    let collect = Collect {
        bench,
        materials: &materials,
        surroundings: *surroundings,
        clock: &clock,
    };
    let harvest = collect.all(&jobs)?;
    let mut rows = (billing.rows)(order, &harvest.findings);
    let sample_of = |row: &Row| profile::of_sessions(&harvest.profiled, row);
    let stacks = bench.request.profiling.attach(&mut rows, sample_of);
    let draft = Draft {
        stack: stack(&harvest, &jobs, surroundings.stop)?,
        rows,
        notes: notes(bench, &materials, &harvest.findings, billing),
        inputs: inputs(&materials, &jobs)?,
        ..counted(bench.request.route, order)
    };
    Ok(clock.billed(draft, stacks))
}

fn jobs(billing: &Billing, order: &Order, abilities: Abilities) -> Vec<Job> {
    let sessions = (billing.sessions)(order, abilities).into_iter();
    sessions.map(|session| Job::new(session, order)).collect()
}

fn check_host(bench: &Bench<'_>, billing: &Billing) -> Result<(), LabError> {
    bench.sources().check_tools()?;
    // On a host with two CPUs two counting guests run side by side, or one race: the first two are the largest.
    let jobs = jobs(billing, &bench.request.order, Abilities::ALL);
    let largest = jobs.iter().take(2).map(|job| job.machine.memory_mib());
    Ok(capacity::require_memory(largest.sum(), "--pages")?)
}

fn obtain(
    billing: &Billing,
    bench: &Bench<'_>,
    clock: &Clock,
    surroundings: &Surroundings<'_>,
) -> Result<Materials, LabError> {
    let obtain = || bench.sources().obtain(*surroundings);
    let mut materials = clock.time("images and builds", obtain)?;
    if let Some(detail) = detail(billing, bench) {
        materials.counter =
            Counter::obtain(Arch::X86_64, detail, surroundings.cache, surroundings.stop)?;
    }
    if bench.request.order.needs_pv32() {
        let obtain = || bench.sources().obtain_pv32(&materials.xen, *surroundings);
        materials.pv32 = Some(clock.time("32-bit dom0's Xen and kernel", obtain)?);
    }
    Ok(materials)
}

/// What is counted beside the clock, where anything is.
fn detail(billing: &Billing, bench: &Bench<'_>) -> Option<Detail> {
    match bench.request.profiling {
        Profiling::Functions | Profiling::Stacks => Some(Detail::Stacks),
        Profiling::No => billing.counts_flushes.then_some(Detail::Flushes),
    }
}

fn stack(
    found: &Collected,
    jobs: &[Job],
    stop: &Stop,
) -> Result<BTreeMap<String, String>, LabError> {
    let hello = &found.hello;
    let of_pv32 = found.hello_of_pv32.as_ref();
    // dom0 and the kernel without Xen have the same.
    let ram = jobs.first().map(|job| job.machine.ram());
    let parts = [
        ("xen", Some(hello.xen.clone())),
        ("xen-pv32", of_pv32.map(|hello| hello.xen.clone())),
        ("linux", Some(hello.linux_version())),
        ("linux-release", Some(hello.release.clone())),
        ("qemu", Some(capacity::qemu_version(Arch::X86_64, stop)?)),
        ("guest-ram", ram),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, version)| Some((name.to_owned(), version?)));
    Ok(known.collect())
}

fn notes(
    bench: &Bench<'_>,
    materials: &Materials,
    findings: &Findings,
    billing: &Billing,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Part::Missing(reason) = &materials.privcmd {
        notes.push(format!("crossings were not counted: {reason}"));
    } else {
        let request = bench.request;
        let traced = request.order.pages.min(Trace::LAB.pages).get();
        let items = request.route.item().many;
        notes.push(format!(
            "crossings: Xen's own trace of {traced} {items} per row; costs were counted without the trace"
        ));
    }
    if let Some((detail, reason)) = detail(billing, bench).zip(materials.counter.as_ref().err()) {
        let what = match detail {
            Detail::Flushes => "writes of CR3 and CR4 were",
            Detail::Stacks => "what was executed was",
        };
        notes.push(format!("{what} not counted: {reason}"));
    }
    if bench.request.profiling != Profiling::No && materials.xen.symbols.is_none() {
        notes.push(
            "functions of the hypervisor are not named: there is no file of its symbols beside its image, NAME.efi or xen-syms"
                .to_owned(),
        );
    }
    notes.extend(findings.no_probe.iter().map(Unavailable::to_string));
    let of_pv32 = |what: String| format!("rows of xen-pv32-dom0: {what}");
    notes.extend(
        findings
            .no_pv32
            .iter()
            .map(Unavailable::to_string)
            .map(of_pv32),
    );
    notes.extend(built_xen(materials).map(origin).map(of_pv32));
    let of_route = billing.lab_notes.iter().chain(billing.notes);
    notes.extend(of_route.map(|&note| note.to_owned()));
    notes
}

/// The Xen that was built for a 32-bit guest alone.
fn built_xen(materials: &Materials) -> Option<&XenImage> {
    let pv32 = materials.pv32.as_ref()?.xen.as_ref().ok()?;
    (pv32.elf != materials.xen.elf).then_some(pv32)
}

fn origin(xen: &XenImage) -> String {
    let sources = xen.packages.iter();
    let sources: Vec<_> = sources
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    format!(
        "on a Xen built with CONFIG_PV32 from the source package {}: Debian's starts no 32-bit guest",
        sources.join(", ")
    )
}

fn inputs(materials: &Materials, jobs: &[Job]) -> Result<Inputs, LabError> {
    let headers = materials.kernel.headers.as_ref().ok();
    let packages = [&materials.xen.packages, &materials.kernel.packages]
        .into_iter()
        .chain(headers.map(|headers| &headers.packages))
        .chain(built_xen(materials).map(|xen| &xen.packages));
    let pv32 = materials.pv32.as_ref().map(|pv32| &pv32.kernel);
    let files = [
        ("xen", Some(&materials.xen.elf)),
        ("linux", Some(&materials.kernel.image)),
        ("init", Some(&materials.init)),
        ("xen-probe", materials.probe.as_ref().ok()),
        ("pv32-probe", pv32),
        ("xen-pv32", built_xen(materials).map(|xen| &xen.elf)),
        (
            "counter",
            materials
                .counter
                .as_ref()
                .ok()
                .map(|counter| &counter.plugin),
        ),
    ];
    let image = |(name, path): (&str, Option<&PathBuf>)| path.map(|path| image(name, path));
    Ok(Inputs {
        boots: commands(jobs),
        packages: packages.flatten().cloned().collect(),
        images: files
            .into_iter()
            .filter_map(image)
            .collect::<Result<_, _>>()?,
        ..Inputs::default()
    })
}

/// How the machines were started, each kind once.
fn commands(jobs: &[Job]) -> Vec<String> {
    let mut commands = Vec::new();
    for job in jobs {
        let command = job.machine.command().to_string();
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}
