//! The unmap route on a real Xen and a real Linux.
//!
//! Three kinds of boot: dom0 under Xen, counting; the same kernel without Xen, counting; dom0 with two vCPUs, racing.
//! Each run of an order is a boot of its own of the first two. Boots run side by side as far as the host has CPUs.

mod collect;
mod plan;
mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagetoll_bill::{
    Backend, Bill, Evidence, Image, Limits, Order, Provenance, Route, Schema, Unit,
};
use pagetoll_units::Pages;

use crate::apt::Freshness;
use crate::cache::Cache;
use crate::dom0::Part;
use crate::error::LabError;
use crate::kernel::KernelSource;
use crate::machine::{Firmware, Machine, Mode};
use crate::materials::{Materials, Sources};
use crate::progress::Progress;
use crate::report::Hello;
use crate::stop::Stop;
use crate::xen::XenSource;
use crate::{digest, host};

/// What the lab can take: 1 GiB of pages (a bill of some minutes), the entries of one table, and more runs than anybody
/// waits for.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 18),
    batch: 512,
    runs: 100,
};

/// Pages of an order that does not say: 64 MiB, enough for 32 page tables.
pub const DEFAULT_PAGES: Pages = Pages(16_384);

/// How long a guest with that many pages may report nothing: a minute for what does not depend on them, and half a
/// millisecond for each, four times what the dearest step takes on a busy machine.
#[must_use]
pub fn silence(pages: Pages) -> Duration {
    Duration::from_secs(60) + Duration::from_micros(500 * pages.get())
}

/// What is to be billed, and on what.
#[derive(Clone, Debug)]
pub struct Request {
    /// The route.
    pub route: Route,
    /// Pages, batches, mechanisms, runs.
    pub order: Order,
    /// The kernel, under Xen and without it.
    pub kernel: KernelSource,
    /// The hypervisor.
    pub xen: XenSource,
    /// Whether package look-ups that were made before will do.
    pub freshness: Freshness,
    /// Where consoles and traces are kept; `None` keeps them only when something fails.
    pub keep_logs: Option<PathBuf>,
    /// A guest that reports nothing for so long is given up.
    pub silence: Duration,
    /// The command line, for the bill's provenance.
    pub command: String,
}

impl Request {
    fn sources(&self) -> Sources<'_> {
        Sources {
            kernel: &self.kernel,
            xen: &self.xen,
            freshness: self.freshness,
        }
    }
}

/// Where the work happens and who is told.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Packages, images and builds.
    pub cache: &'a Cache,
    /// Asks for an early end.
    pub stop: &'a Stop,
    /// Hears of the progress.
    pub progress: &'a dyn Progress,
}

/// A bill, and where the time went.
#[derive(Debug)]
pub struct Billed {
    /// The bill; whoever saves it knows the time and sets `provenance.when`.
    pub bill: Bill,
    /// Wall time of each phase, in the order in which they ended; boots overlap.
    pub timings: Vec<(String, Duration)>,
}

/// Bills the route.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub fn bill(request: &Request, surroundings: &Surroundings<'_>) -> Result<Billed, LabError> {
    check_host(request)?;
    let clock = Clock::default();
    let obtain = || request.sources().obtain(*surroundings);
    let materials = clock.time("images and builds", obtain)?;
    let harvest = collect::collect(request, &materials, *surroundings, &clock)?;
    let bill = Bill {
        schema: Schema::V1,
        route: request.route,
        backend: Backend::Lab,
        backend_reason: String::new(),
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: stack(&harvest.hello, surroundings.stop)?,
        rows: rows::rows(&request.order, &harvest.findings),
        notes: notes(&harvest.findings, &materials, &request.order),
        order: request.order.clone(),
        provenance: provenance(request, &materials)?,
    };
    Ok(Billed {
        bill,
        timings: clock.timings(),
    })
}

fn check_host(request: &Request) -> Result<(), LabError> {
    request.sources().check_tools()?;
    let most = machines(&request.order).map(Machine::memory_mib);
    // On a host with two CPUs a counting dom0 and a native kernel run side by side, or one race.
    host::require_memory(most[0] + most[1], "--pages")
}

/// Memory that the default order's guests take when two run side by side, in MiB.
#[must_use]
pub fn default_memory_mib() -> u64 {
    let pages_mib = pages_mib(DEFAULT_PAGES);
    let of = |firmware| {
        Machine {
            mode: Mode::Counting,
            firmware,
            pages_mib,
        }
        .memory_mib()
    };
    of(Firmware::Xen) + of(Firmware::Linux)
}

/// Guest memory for the pages, and a sixteenth more for page tables and the kernel's own accounts of them.
fn pages_mib(pages: Pages) -> u64 {
    let mib = pages.get() / 256;
    mib + mib / 16
}

/// The three kinds of machine: counting dom0, native, racing dom0.
fn machines(order: &Order) -> [Machine; 3] {
    let kinds = [
        (Mode::Counting, Firmware::Xen),
        (Mode::Counting, Firmware::Linux),
        (Mode::Race, Firmware::Xen),
    ];
    kinds.map(|(mode, firmware)| Machine {
        mode,
        firmware,
        pages_mib: pages_mib(order.pages),
    })
}

fn stack(hello: &Hello, stop: &Stop) -> Result<BTreeMap<String, String>, LabError> {
    let parts = [
        ("xen", hello.xen.clone()),
        ("linux", linux_version(hello)),
        ("linux-release", hello.release.clone()),
        ("qemu", host::qemu_version(stop)?),
    ];
    Ok(parts
        .map(|(name, version)| (name.to_owned(), version))
        .into())
}

/// Debian's release says 6.1.0-56-amd64 of Linux 6.1.192; its banner has the version.
pub(crate) fn linux_version(hello: &Hello) -> String {
    let debian = hello.version.split_once("Debian ").map(|(_, rest)| rest);
    let version = debian.unwrap_or(&hello.release);
    let end = version.find(['-', ' ', '+', '~']).unwrap_or(version.len());
    version[..end].to_owned()
}

fn notes(findings: &rows::Findings, materials: &Materials, order: &Order) -> Vec<String> {
    let mut notes = Vec::new();
    if let Part::Missing(reason) = &materials.privcmd {
        notes.push(format!("crossings were not counted: {reason}"));
    } else {
        let traced = order.pages.get().min(plan::TRACED_PAGES);
        notes.push(format!(
            "crossings: Xen's own trace of {traced} pages per row; costs were counted without the trace"
        ));
    }
    notes.extend(findings.no_probe.iter().cloned());
    notes
}

fn provenance(request: &Request, materials: &Materials) -> Result<Provenance, LabError> {
    let headers = materials.kernel.headers.as_ref().ok();
    let packages = [&materials.xen.packages, &materials.kernel.packages]
        .into_iter()
        .chain(headers.map(|headers| &headers.packages));
    let files = [
        ("xen", Some(&materials.xen.elf)),
        ("linux", Some(&materials.kernel.image)),
        ("init", Some(&materials.init)),
        ("xen-probe", materials.probe.as_ref().ok()),
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
        boots: machines(&request.order)
            .map(|machine| machine.command().to_string())
            .to_vec(),
        packages: packages.flatten().cloned().collect(),
        images: named.map(image).collect::<Result<_, LabError>>()?,
    })
}

/// Wall time of phases, for whoever asks where it went. Enters no figure.
#[derive(Default)]
struct Clock {
    timings: Mutex<Vec<(String, Duration)>>,
}

impl Clock {
    fn time<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.push((what.to_owned(), began.elapsed()));
        result
    }

    fn timings(self) -> Vec<(String, Duration)> {
        self.timings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
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
