//! The demand route on real kernels: a guest of the lab's guest touches memory that has to be brought in.
//!
//! One kind of boot for each run: Linux without Xen on a processor that QEMU gives AMD's virtualisation, where
//! `guests/demand-probe` makes a machine of one vCPU by KVM. Everything that this machine, KVM and the probe's threads do
//! is counted, on the one CPU that they share. What a page costs to fetch from afar is not in it: it is there in memory.

mod check;
mod guest;
mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagetoll_bill::{Backend, Bill, Evidence, Image, Limits, Provenance, Route, Schema, Unit};
use pagetoll_units::Pages;

use crate::bill::linux_version;
use crate::error::LabError;
use crate::request::{Billed, Request, pages_mib};
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::tools::{self, Images};
use pagetoll_images::{digest, host};

pub use check::check;
use guest::{Found, Kernel, Programs};

/// What the lab can take: 1 GiB of pages, and more runs than anybody waits for.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 18),
    batch: 1,
    runs: 100,
};

/// Pages of an order that does not say: 16 MiB, of which each costs tens of thousands of instructions several times.
pub const DEFAULT_PAGES: Pages = Pages(4096);

/// How long a guest with that many pages may report nothing: three minutes for what does not depend on them, and five
/// milliseconds for each, four times what the dearest step takes on a busy machine.
#[must_use]
pub fn silence(pages: Pages) -> Duration {
    Duration::from_secs(180) + Duration::from_millis(5 * pages.get())
}

/// What a reader should know of every bill of this route.
const NOTES: [&str; 5] = [
    "crossings: exits of the vCPU for whatever reason, by KVM's own statistics; thread switches and messages beside them",
    "uffd: one reader, which does nothing but read, copy and wake; the vCPU's thread and the reader share the one CPU",
    "exit-on-missing: a reader stands by for what KVM and system calls touch; the vCPU's thread copies and wakes nobody",
    "tolls of an exit, a return to user space, a copy, and sleeping and waking are counted by themselves in the same boot",
    "nested: QEMU's emulated SVM takes no instruction for the world switch itself, so that an exit costs what KVM does",
];

fn machine(pages: Pages) -> Machine {
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxWithSvm,
        pages_mib: pages_mib(pages),
        xen: XenOptions::Default,
    }
}

/// Bills the route on one kernel.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(request: &Request, surroundings: &Surroundings<'_>) -> Result<Billed, LabError> {
    check_tools(&request.kernel)?;
    host::require_memory(machine(request.order.pages).memory_mib(), "--pages")?;
    let began = Instant::now();
    let programs = guest::programs(*surroundings)?;
    let kernel = guest::kernel(&request.kernel, request.freshness, *surroundings)?;
    let obtained = began.elapsed();
    let run = |run| guest::run(request, (&programs, &kernel, run), *surroundings);
    let found = (1..=request.order.runs)
        .map(run)
        .collect::<Result<Vec<_>, LabError>>()?;
    let qemu = host::qemu_version(surroundings.stop)?;
    Ok(Billed {
        bill: assemble(request, (&programs, &kernel), (&found, qemu))?,
        timings: vec![
            ("images and builds".to_owned(), obtained),
            ("boots".to_owned(), began.elapsed() - obtained),
        ],
    })
}

fn check_tools(kernel: &KernelSource) -> Result<(), Error> {
    let of_debian = matches!(kernel, KernelSource::Debian { .. });
    tools::check_lab(if of_debian {
        Images::Debian
    } else {
        Images::Files
    })
}

fn assemble(
    request: &Request,
    (programs, kernel): (&Programs, &Kernel),
    (found, qemu): (&[Found], String),
) -> Result<Bill, LabError> {
    let hello = found.first().map(|found| &found.hello);
    let stack = [
        ("linux", hello.map(linux_version).unwrap_or_default()),
        ("linux-release", kernel.image.release.clone()),
        ("qemu", qemu),
    ];
    Ok(Bill {
        schema: Schema::V1,
        route: Route::Demand,
        backend: Backend::Lab,
        backend_reason: String::new(),
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: stack
            .map(|(name, version)| (name.to_owned(), version))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        rows: rows::rows(&request.order, found),
        notes: NOTES.map(str::to_owned).to_vec(),
        order: request.order.clone(),
        provenance: provenance(request, programs, kernel)?,
    })
}

fn provenance(
    request: &Request,
    programs: &Programs,
    kernel: &Kernel,
) -> Result<Provenance, LabError> {
    let image = |(name, path): (&str, &PathBuf)| {
        let sha256 = digest::sha256_of_file(path)?;
        Ok(Image {
            name: name.to_owned(),
            sha256,
        })
    };
    let files = [
        ("linux", &kernel.image.image),
        ("init", &programs.init),
        ("demand-probe", &programs.probe),
    ];
    Ok(Provenance {
        when: String::new(),
        command: request.command.clone(),
        pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
        boots: vec![machine(request.order.pages).command().to_string()],
        packages: kernel.image.packages.clone(),
        images: files
            .into_iter()
            .map(image)
            .collect::<Result<_, LabError>>()?,
    })
}
