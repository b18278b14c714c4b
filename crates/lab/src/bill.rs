//! From a request to a bill, whatever the route: images, boots, rows, and what exactly was run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pagetoll_bill::{Backend, Bill, Evidence, Image, Provenance, Route, Schema, Unit};

use crate::clock::Clock;
use crate::dom0::collect::{self, Collected, Job};
use crate::dom0::findings::Findings;
use crate::dom0::materials::Materials;
use crate::dom0::plan;
use crate::dom0::pv32;
use crate::error::LabError;
use crate::guest::report::Hello;
use crate::request::{Billed, Request};
use crate::routes::demand;
use crate::routes::{self, Travel};
use crate::vm::counter;
use crate::vm::machine::Machine;
use pagetoll_backend::Stop;
use pagetoll_images::Surroundings;
use pagetoll_images::dom0::Part;
use pagetoll_images::xen::XenImage;
use pagetoll_images::{digest, host};

/// Bills a route.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub fn bill(request: &Request, surroundings: &Surroundings<'_>) -> Result<Billed, LabError> {
    if request.route == Route::Demand {
        return demand::bill(request, surroundings);
    }
    let travel = routes::of(request.route)?;
    check_host(request, travel)?;
    let clock = Clock::default();
    let obtain = || request.sources().obtain(*surroundings);
    let mut materials = clock.time("images and builds", obtain)?;
    if travel.counts_flushes {
        materials.counter = counter::obtain(surroundings.cache, surroundings.stop)?;
    }
    if pv32::is_ordered(request.route, &request.order) {
        let obtain = || request.sources().obtain_pv32(&materials.xen, *surroundings);
        materials.pv32 = Some(clock.time("32-bit dom0's Xen and kernel", obtain)?);
    }
    let jobs = (travel.jobs)(&request.order, plan::abilities(&materials));
    let collect = collect::Collect {
        request,
        materials: &materials,
        surroundings: *surroundings,
        clock: &clock,
    };
    let harvest = collect.all(&jobs)?;
    let bill = Bill {
        schema: Schema::V1,
        route: request.route,
        backend: Backend::Lab,
        backend_reason: String::new(),
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: stack(&harvest, surroundings.stop)?,
        rows: (travel.rows)(&request.order, &harvest.findings),
        notes: notes(request, &materials, &harvest.findings, travel),
        order: request.order.clone(),
        provenance: provenance(request, &materials, &jobs)?,
    };
    Ok(Billed {
        bill,
        timings: clock.timings(),
    })
}

fn check_host(request: &Request, travel: &Travel) -> Result<(), LabError> {
    request.sources().check_tools()?;
    // On a host with two CPUs two counting guests run side by side, or one race: the first two are the largest.
    let jobs = (travel.jobs)(&request.order, plan::Abilities::ALL);
    let largest = jobs.iter().take(2).map(|job| job.machine.memory_mib());
    Ok(host::require_memory(largest.sum(), "--pages")?)
}

fn stack(found: &Collected, stop: &Stop) -> Result<BTreeMap<String, String>, LabError> {
    let hello = &found.hello;
    let of_pv32 = found.hello_of_pv32.as_ref();
    let parts = [
        ("xen", Some(hello.xen.clone())),
        ("xen-pv32", of_pv32.map(|hello| hello.xen.clone())),
        ("linux", Some(linux_version(hello))),
        ("linux-release", Some(hello.release.clone())),
        ("qemu", Some(host::qemu_version(stop)?)),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, version)| Some((name.to_owned(), version?)));
    Ok(known.collect())
}

/// Debian's release says 6.1.0-56-amd64 of Linux 6.1.192; its banner has the version.
pub(crate) fn linux_version(hello: &Hello) -> String {
    let debian = hello.version.split_once("Debian ").map(|(_, rest)| rest);
    let version = debian.unwrap_or(&hello.release);
    let end = version.find(['-', ' ', '+', '~']).unwrap_or(version.len());
    version[..end].to_owned()
}

fn notes(
    request: &Request,
    materials: &Materials,
    findings: &Findings,
    travel: &Travel,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Part::Missing(reason) = &materials.privcmd {
        notes.push(format!("crossings were not counted: {reason}"));
    } else {
        let traced = request.order.pages.get().min(plan::TRACED_PAGES);
        let items = request.route.items();
        notes.push(format!(
            "crossings: Xen's own trace of {traced} {items} per row; costs were counted without the trace"
        ));
    }
    if let Some(Err(reason)) = travel.counts_flushes.then_some(&materials.counter) {
        notes.push(format!("writes of CR3 and CR4 were not counted: {reason}"));
    }
    notes.extend(findings.no_probe.iter().cloned());
    let of_pv32 = |what: String| format!("rows of xen-pv32-dom0: {what}");
    notes.extend(findings.no_pv32.iter().cloned().map(of_pv32));
    notes.extend(built_xen(materials).map(told_of).map(of_pv32));
    notes.extend(travel.notes.iter().map(|&note| note.to_owned()));
    notes
}

/// The Xen that was built for a 32-bit guest alone.
fn built_xen(materials: &Materials) -> Option<&XenImage> {
    let pv32 = materials.pv32.as_ref()?.xen.as_ref().ok()?;
    (pv32.elf != materials.xen.elf).then_some(pv32)
}

fn told_of(xen: &XenImage) -> String {
    let sources = xen.packages.iter();
    let sources: Vec<_> = sources
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    format!(
        "on a Xen built with CONFIG_PV32 from the source package {}: Debian's starts no 32-bit guest",
        sources.join(", ")
    )
}

fn provenance(
    request: &Request,
    materials: &Materials,
    jobs: &[Job],
) -> Result<Provenance, LabError> {
    let headers = materials.kernel.headers.as_ref().ok();
    let packages = [&materials.xen.packages, &materials.kernel.packages]
        .into_iter()
        .chain(headers.map(|headers| &headers.packages))
        .chain(built_xen(materials).map(|xen| &xen.packages));
    let files = [
        ("xen", Some(&materials.xen.elf)),
        ("linux", Some(&materials.kernel.image)),
        ("init", Some(&materials.init)),
        ("xen-probe", materials.probe.as_ref().ok()),
        (
            "pv32-probe",
            materials.pv32.as_ref().map(|pv32| &pv32.kernel),
        ),
        ("xen-pv32", built_xen(materials).map(|xen| &xen.elf)),
        ("counter", materials.counter.as_ref().ok()),
    ];
    let image = |(name, path): (&str, &PathBuf)| {
        let sha256 = digest::sha256_of_file(path)?;
        Ok(Image {
            name: name.to_owned(),
            sha256,
        })
    };
    let named = files
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)));
    Ok(Provenance {
        when: String::new(),
        command: request.command.clone(),
        pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
        boots: commands(jobs.iter().map(|job| job.machine)),
        packages: packages.flatten().cloned().collect(),
        images: named.map(image).collect::<Result<_, LabError>>()?,
    })
}

/// How the machines were started, each kind once.
fn commands(machines: impl Iterator<Item = Machine>) -> Vec<String> {
    let mut commands = Vec::new();
    for machine in machines {
        let command = machine.command().to_string();
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: &str, release: &str) -> Hello {
        Hello {
            version: version.into(),
            release: release.into(),
            xen: "4.17.7".into(),
            cpus: 1,
        }
    }

    #[test]
    fn debians_version_is_found_and_others_have_their_release() {
        let debian = hello(
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)",
            "6.1.0-56-amd64",
        );
        assert_eq!(linux_version(&debian), "6.1.192");
        assert_eq!(linux_version(&hello("#3 SMP", "6.19.0-rc2+")), "6.19.0");
    }
}
