//! Routes of a PV dom0 in the lab: images, boots, rows, and the files and commands of every boot.

mod boots;
pub(crate) mod materials;

use std::collections::BTreeMap;
use std::path::PathBuf;

use boots::{Boots, machine};

use materials::Materials;
use pagetoll_backend::{Billed, Error as BackendError, Stop};
use pagetoll_bill::{Arch, Draft, Inputs, Order, Row, Unavailable};
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::kernel::modules::Part;
use pagetoll_images::xen::XenImage;
use pagetoll_pv::findings::Findings;
use pagetoll_pv::plan::{Abilities, Trace};
use pagetoll_pv::routes::Billing;
use pagetoll_pv::session::{Kind, Session};

use crate::draft::{Clock, counted, image};
use crate::profile::Profiling;
use crate::request::{KernelRequest, Request};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::Cores;
use pagetoll_lab_vm::counter::{Counter, Detail};

/// Bills a route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(
    billing: &Billing,
    request: &KernelRequest<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<Billed, LabError> {
    check_host(request, billing)?;
    let order = &request.common.order;
    let clock = Clock::default();
    let materials = obtain(billing, request, &clock, surroundings)?;
    let sessions = sessions(billing, request.common, materials.abilities());
    let boots = Boots {
        request,
        materials: &materials,
        surroundings: *surroundings,
        clock: &clock,
        cores: Cores::new(capacity::cpus()),
    };
    let (findings, runs) = boots.run(&sessions)?;
    let mut rows = (billing.rows)(order, &findings);
    rows.retain(|row| request.common.rows.includes(&row.key));
    let sample_of = |row: &Row| runs.iter().find_map(|run| run.sample(row));
    let profiling = request.common.profiling;
    let stacks = profiling.attach(&mut rows, sample_of);
    let draft = Draft {
        stack: stack(&findings, &sessions, order, surroundings.stop)?,
        rows,
        notes: notes(request, &materials, &findings, &sessions, billing),
        inputs: inputs(&materials, &sessions, order)?,
        ..counted(request.common.route, order)
    };
    Ok(clock.billed(draft, stacks))
}

/// Checks the names of the rows to bill.
///
/// # Errors
/// [`Class::BadInput`](pagetoll_backend::Class::BadInput): one that no row has.
pub(crate) fn check_rows(billing: &Billing, request: &Request) -> Result<(), BackendError> {
    let rows = (billing.rows)(&request.order, &Findings::unbilled());
    let checked = request.rows.check(rows.iter().map(|row| &row.key));
    checked.map_err(|error| BackendError::bad_input(error.to_string()))
}

/// The sessions that serve a row to bill.
fn sessions(billing: &Billing, request: &Request, abilities: Abilities) -> Vec<Session> {
    let mut rows = (billing.rows)(&request.order, &Findings::unbilled());
    rows.retain(|row| request.rows.includes(&row.key));
    let mut sessions = (billing.sessions)(&request.order, abilities);
    sessions.retain(|session| rows.iter().any(|row| session.serves(&row.key)));
    sessions
}

fn boot_xen(sessions: &[Session]) -> bool {
    sessions.iter().any(|session| session.kind != Kind::Native)
}

fn check_host(request: &KernelRequest<'_>, billing: &Billing) -> Result<(), LabError> {
    materials::check_tools(&request.kernel, &request.xen)?;
    // On a host with two CPUs two counting guests run side by side, or one race: the first two are the largest.
    let order = &request.common.order;
    let sessions = sessions(billing, request.common, Abilities::ALL);
    let first = sessions.iter().take(2);
    let largest = first.map(|session| machine(session, order).memory_mib());
    Ok(capacity::require_memory(largest.sum(), "--pages")?)
}

fn obtain(
    billing: &Billing,
    request: &KernelRequest<'_>,
    clock: &Clock,
    surroundings: &Surroundings<'_>,
) -> Result<Materials, LabError> {
    let freshness = request.freshness();
    let obtain = || Materials::obtain(&request.kernel, &request.xen, freshness, *surroundings);
    let mut materials = clock.time("images and builds", obtain)?;
    if let Some(detail) = detail(billing, request) {
        materials.counter =
            Counter::obtain(Arch::X86_64, detail, surroundings.cache, surroundings.stop)?;
    }
    if request.common.order.needs_pv32() {
        let obtain = || materials.obtain_pv32(&request.xen, freshness, *surroundings);
        clock.time("32-bit dom0's Xen and kernel", obtain)?;
    }
    Ok(materials)
}

/// Events that are counted beside the clock.
fn detail(billing: &Billing, request: &KernelRequest<'_>) -> Option<Detail> {
    match request.common.profiling {
        Profiling::Functions | Profiling::Stacks => Some(Detail::Stacks),
        Profiling::No => billing.counts_flushes.then_some(Detail::Flushes),
    }
}

fn stack(
    findings: &Findings,
    sessions: &[Session],
    order: &Order,
    stop: &Stop,
) -> Result<BTreeMap<String, String>, LabError> {
    let first = findings.dom0.first().or(findings.native.first());
    let hello = &first.ok_or(Error::Stopped)?.hello;
    let pv32 = findings.pv32.first().map(|reports| &reports.hello);
    // dom0 and the kernel without Xen have the same.
    let first = sessions.first();
    let ram = first.map(|session| machine(session, order).ram());
    let parts = [
        ("xen", boot_xen(sessions).then(|| hello.xen.clone())),
        ("xen-pv32", pv32.map(|hello| hello.xen.clone())),
        ("linux", Some(hello.linux_version())),
        ("linux-release", Some(hello.release.clone())),
        (
            "qemu",
            Some(pagetoll_lab_vm::qemu_version(Arch::X86_64, stop)?),
        ),
        ("guest-ram", ram),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, version)| Some((name.to_owned(), version?)));
    Ok(known.collect())
}

fn notes(
    request: &KernelRequest<'_>,
    materials: &Materials,
    findings: &Findings,
    sessions: &[Session],
    billing: &Billing,
) -> Vec<String> {
    let mut notes = Vec::new();
    match &materials.privcmd {
        _ if !boot_xen(sessions) => {}
        Part::Missing(reason) => notes.push(format!("crossings were not counted: {reason}")),
        Part::BuiltIn | Part::Module(_) => {
            let traced = request.common.order.pages.min(Trace::LAB.pages).get();
            let items = request.common.route.item().many;
            notes.push(format!(
                "crossings: Xen's own trace of {traced} {items} per row; costs were counted without the trace"
            ));
        }
    }
    if let Some((detail, reason)) = detail(billing, request).zip(materials.counter.as_ref().err()) {
        let what = match detail {
            Detail::Flushes => "writes of CR3 and CR4 were",
            Detail::Stacks => "what was executed was",
        };
        notes.push(format!("{what} not counted: {reason}"));
    }
    if request.common.profiling != Profiling::No && materials.xen.symbols.is_none() {
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

fn inputs(materials: &Materials, sessions: &[Session], order: &Order) -> Result<Inputs, LabError> {
    let headers = materials.kernel.headers.as_ref().ok();
    let xen = boot_xen(sessions).then_some(&materials.xen);
    let probe = materials.probe.as_ref().ok();
    let packages = xen
        .map(|xen| &xen.packages)
        .into_iter()
        .chain([&materials.kernel.packages])
        .chain(headers.map(|headers| &headers.packages))
        .chain(built_xen(materials).map(|xen| &xen.packages));
    let pv32 = materials.pv32.as_ref().map(|pv32| &pv32.kernel);
    let files = [
        ("xen", xen.map(|xen| &xen.elf)),
        ("linux", Some(&materials.kernel.image)),
        ("init", Some(&materials.init)),
        ("xen-probe", probe.filter(|_| xen.is_some())),
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
        boots: commands(sessions, order),
        packages: packages.flatten().cloned().collect(),
        images: files
            .into_iter()
            .filter_map(image)
            .collect::<Result<_, _>>()?,
        ..Inputs::default()
    })
}

/// Commands of the machines, each once.
fn commands(sessions: &[Session], order: &Order) -> Vec<String> {
    let mut commands = Vec::new();
    for session in sessions {
        let command = machine(session, order).command().to_string();
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}
