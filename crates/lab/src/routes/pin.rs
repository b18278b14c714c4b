//! The pin route on real kernels: memory of several shapes is mapped for a device's DMA and unmapped.
//!
//! One kind of boot for each kernel and run: a q35 machine with an emulated VT-d IOMMU and a device behind it that
//! `guests/pin-probe` drives through VFIO. With tracing, one more boot of each kernel, for the parts of the costs only.

mod collect;
pub mod conformance;
mod graph;
mod guest;
mod materials;
mod plan;
mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagetoll_bill::{
    Backend, Bill, Evidence, Image, Limits, Order, Provenance, Route, Row, Schema, Unit,
};
use pagetoll_units::Pages;

use crate::bill::linux_version;
use crate::error::LabError;
use crate::request::Billed;
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::tools::{self, Images};
use pagetoll_images::{digest, host};

use collect::{OfKernel, Work};
use materials::{Kernel, Programs};

pub use crate::vm::machine::AddressWidth;
pub use plan::{SHAPES, Shape};

/// What the lab can take: pages that are there twice, small and large, in the 2 GiB that a machine has beside its 1 GiB
/// page; more runs than anybody waits for.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 17),
    batch: 1,
    runs: 100,
};

/// Pages of an order that does not say: 256 MiB.
pub const DEFAULT_PAGES: Pages = Pages(65_536);

/// How long a guest may report nothing: the dearest step, a page of 1 GiB, takes 10 s on a busy machine.
pub const SILENCE: Duration = Duration::from_secs(180);

/// Whether functions are traced, in boots of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// No.
    Off,
    /// function_graph of the ioctls and what they call.
    FunctionGraph,
}

/// What is to be billed, and on what.
#[derive(Clone, Debug)]
pub struct Request {
    /// Pages, mechanisms, runs.
    pub order: Order,
    /// The shapes of memory.
    pub shapes: Vec<Shape>,
    /// The kernels, each a column.
    pub kernels: Vec<KernelSource>,
    /// What the machine's IOMMU translates.
    pub width: AddressWidth,
    /// Whether functions are traced.
    pub tracing: Tracing,
    /// Whether package look-ups that were made before will do.
    pub freshness: Freshness,
    /// Where consoles and traces are kept; `None` keeps them only when something fails.
    pub keep_logs: Option<PathBuf>,
    /// A guest that reports nothing for so long is given up.
    pub silence: Duration,
    /// The command line, for the bill's provenance.
    pub command: String,
}

/// Bills the route.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub fn bill(request: &Request, surroundings: &Surroundings<'_>) -> Result<Billed, LabError> {
    check_host(request)?;
    let began = Instant::now();
    let programs = materials::programs(*surroundings)?;
    let kernels = materials::kernels(&request.kernels, request.freshness, *surroundings)?;
    let obtained = began.elapsed();
    let work = Work {
        request,
        programs: &programs,
        surroundings: *surroundings,
    };
    let found = collect::collect(work, &kernels)?;
    let qemu = host::qemu_version(surroundings.stop)?;
    Ok(Billed {
        bill: assemble(request, (&programs, &kernels), &found, qemu)?,
        timings: vec![
            ("images and builds".to_owned(), obtained),
            ("boots".to_owned(), began.elapsed() - obtained),
        ],
    })
}

fn check_host(request: &Request) -> Result<(), Error> {
    check_tools(&request.kernels)?;
    let boots = request.kernels.len().max(1).min(host::cpus());
    let each = machine(request).memory_mib();
    let all = each * u64::try_from(boots).unwrap_or(u64::MAX);
    host::require_memory(all, "--folio, --pages or fewer --kernel")
}

fn check_tools(kernels: &[KernelSource]) -> Result<(), Error> {
    let of_debian = |source: &KernelSource| matches!(source, KernelSource::Debian { .. });
    tools::check_lab(if kernels.iter().any(of_debian) {
        Images::Debian
    } else {
        Images::Files
    })
}

fn machine(request: &Request) -> Machine {
    let huge = plan::huge_pages(&request.shapes, request.order.pages);
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxWithIommu(huge, request.width),
        pages_mib: 0,
        xen: XenOptions::Default,
    }
}

fn assemble(
    request: &Request,
    (programs, kernels): (&Programs, &[Kernel]),
    found: &[OfKernel],
    qemu: String,
) -> Result<Bill, LabError> {
    let versions: Vec<_> = found.iter().map(|of| linux_version(&of.hello)).collect();
    let columns = |version| rows::Columns {
        version,
        shapes: &request.shapes,
        mechanisms: &request.order.mechanisms,
        pages: request.order.pages,
    };
    let pairs = versions.iter().zip(found);
    let rows: Vec<_> = pairs
        .flat_map(|(version, of)| rows::rows(&columns(version), of))
        .collect();
    require_a_figure(&rows)?;
    let stack = [
        ("linux", versions.join(", ")),
        ("qemu", qemu),
        ("iommu", format!("VT-d, {} bits", request.width.bits())),
    ];
    Ok(Bill {
        schema: Schema::V1,
        route: Route::Pin,
        backend: Backend::Lab,
        backend_reason: String::new(),
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: stack
            .map(|(name, version)| (name.to_owned(), version))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        rows,
        notes: notes(request, versions.iter().zip(found)),
        order: request.order.clone(),
        provenance: provenance(request, programs, kernels)?,
    })
}

/// A bill in which nothing has a figure is none.
fn require_a_figure(rows: &[Row]) -> Result<(), Error> {
    let reasons: Option<Vec<_>> = rows.iter().map(|row| row.unavailable.as_ref()).collect();
    match reasons.as_deref() {
        Some([first, ..]) => Err(Error::Environment {
            what: format!("nothing could be billed: {first}"),
            remedy: "order other memory with --folio, fewer --pages, or another --kernel"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

fn notes<'a>(
    request: &Request,
    kernels: impl Iterator<Item = (&'a String, &'a OfKernel)>,
) -> Vec<String> {
    let mut notes = vec![
        "memory is there and written before it is mapped: neither page faults nor zeroing are in the figures"
            .to_owned(),
        "map and unmap: the median of three, after two to warm up; first-map: the first".to_owned(),
        "4K, 64K and file follow the physical contiguity of the boot: see the runs".to_owned(),
    ];
    let asked = request
        .order
        .mechanisms
        .iter()
        .any(|name| name == "iommufd");
    for (version, _) in kernels.filter(|(_, of)| asked && !of.has("iommufd")) {
        notes.push(format!("iommufd: Linux {version} was built without it"));
    }
    if request.tracing == Tracing::FunctionGraph {
        notes.push(
            "tolls by function: their parts are from a boot under function_graph, scaled to the cost without it"
                .to_owned(),
        );
    }
    notes
}

fn provenance(
    request: &Request,
    programs: &Programs,
    kernels: &[Kernel],
) -> Result<Provenance, LabError> {
    let image = |name: String, path: &PathBuf| {
        let sha256 = digest::sha256_of_file(path)?;
        Ok(Image { name, sha256 })
    };
    let of_kernel = |kernel: &Kernel| {
        image(
            format!("linux-{}", kernel.image.release),
            &kernel.image.image,
        )
    };
    let mut images: Vec<_> = kernels
        .iter()
        .map(of_kernel)
        .collect::<Result<_, LabError>>()?;
    images.push(image("init".to_owned(), &programs.init)?);
    images.push(image("pin-probe".to_owned(), &programs.probe)?);
    let packages = kernels.iter().flat_map(|kernel| &kernel.image.packages);
    let boot = machine(request).command();
    Ok(Provenance {
        when: String::new(),
        command: request.command.clone(),
        pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
        boots: vec![boot.to_string()],
        packages: packages.cloned().collect(),
        images,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_bill::Role;

    #[test]
    fn a_bill_without_a_figure_is_refused_with_the_reason() {
        let row = |unavailable: Option<&str>| {
            let mut row = Row::new("map", "kernel", Role::Observed, Pages(1));
            row.unavailable = unavailable.map(str::to_owned);
            row
        };
        let none = Some("no free hugepages of 2 MiB");
        assert!(require_a_figure(&[row(none), row(None)]).is_ok());
        let error = require_a_figure(&[row(none), row(none)]).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("no free hugepages of 2 MiB"));
    }
}
