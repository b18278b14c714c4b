//! The pin route on real kernels: memory of several shapes is mapped for a device's DMA and unmapped.
//!
//! One kind of boot for each kernel and run: a q35 machine with an emulated IOMMU and a device behind it that
//! `guests/pin-probe` drives through VFIO. With tracing, one more boot of each kernel, for the parts of the costs only.

mod boots;
mod check;
pub mod conformance;
mod graph;
mod materials;
mod plan;
mod rows;

use std::time::Duration;

use boots::{Boots, KernelRuns};
pub use check::check;
use materials::Materials;
use pagetoll_backend::{Billed, Error as BackendError};
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::{Iommu, Wanted};
use pagetoll_bill::{
    Arch, Backend, Draft, Inputs, Limits, Mechanism, Method, Order, Route, Row, Spec,
};
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_protocol::step::Interface;
use pagetoll_pv::pin::{self, Cell};
use pagetoll_pv::session::XenOptions;

use crate::draft::{Clock, counted, image, part_of_stack};
use crate::kernels;
use crate::linux::{Kernel, check_tools};
use crate::profile::{Profiling, Sample};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::machine::{Firmware, Machine, Mode, Variant};
use pagetoll_lab_vm::options::BootOptions;

/// At most pages that are there twice, small and large, in the 2 GiB that a machine has beside its 1 GiB page; more
/// runs than are of use. By default 256 MiB. No mechanism of the route takes a batch.
const LIMITS: Limits = Limits::pages(65_536, 1 << 17).runs(1, 100);

/// CPU time without a report: the longest step, a page of 1 GiB, takes 10 s.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Memory to pin, and the kernels to pin it on.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The processor of the machines.
    arch: Arch,
    order: Order,
    shapes: Vec<Folio>,
    /// Each a column, by its version: what `kernel` does depends on it, and a name such as `debian` does not say it.
    kernels: Vec<KernelSource>,
    iommu: Iommu,
    /// Tracing of functions, in boots of their own.
    trace: Wanted,
    profiling: Profiling,
    freshness: Freshness,
    options: BootOptions,
}

impl Request {
    /// Resolves an order.
    ///
    /// # Errors
    /// A number out of range, an unknown mechanism or kernel, a file in place of a folder.
    pub(crate) fn new(spec: &Spec) -> Result<Self, BackendError> {
        let lab = &spec.lab;
        let order = spec.order(Backend::Lab, &LIMITS)?;
        let arch = lab.arch.unwrap_or_default();
        Ok(Self {
            arch,
            shapes: pin::shapes(&spec.folios),
            kernels: kernels::sources(lab)?,
            iommu: iommu(lab.iommu, arch)?,
            trace: lab.trace,
            profiling: Profiling::new(lab),
            freshness: Freshness::from(lab.refresh),
            options: BootOptions::new(lab, TIMEOUT)?.for_runs(order.runs),
            order,
        })
    }

    fn interfaces(&self) -> Vec<Interface> {
        self.order
            .of()
            .into_iter()
            .filter_map(pin::interface)
            .collect()
    }
}

/// The IOMMU of machines with a processor.
fn iommu(ordered: Option<Iommu>, arch: Arch) -> Result<Iommu, BackendError> {
    let iommu = ordered.unwrap_or(Iommu::default_of(arch));
    if iommu.arch() == arch {
        return Ok(iommu);
    }
    let problem = format!(
        "--iommu {iommu}: not available on {arch}; needs --arch {}",
        iommu.arch()
    );
    Err(BackendError::bad_input(problem))
}

/// Bills the route. Boots of all kernels run side by side.
///
/// # Errors
/// Bad input, a machine that lacks something, a guest that fails; never with a process left behind.
pub(crate) fn bill(request: &Request, surroundings: &Surroundings<'_>) -> Result<Billed, LabError> {
    check_host(request)?;
    let clock = Clock::default();
    let obtain = || {
        Materials::obtain(
            request.arch,
            &request.kernels,
            request.freshness,
            *surroundings,
        )
    };
    let materials = clock.time("images and builds", obtain)?;
    let counter = request.profiling.counter(request.arch, surroundings)?;
    let boots = Boots {
        request,
        materials: &materials,
        counter: counter.as_ref().and_then(|counter| counter.as_ref().ok()),
        clock: &clock,
        surroundings: *surroundings,
    };
    let run = || boots::run(boots);
    let found = clock.time("boots", run)?;
    let qemu = pagetoll_lab_vm::qemu_version(request.arch, surroundings.stop)?;
    let mut draft = draft(request, &materials, &found, qemu)?;
    let sample_of = |row: &Row| sample_of(&found, row);
    let stacks = request.profiling.attach(&mut draft.rows, sample_of);
    if let Some(Err(reason)) = counter {
        draft
            .notes
            .push(format!("what was executed was not counted: {reason}"));
    }
    Ok(clock.billed(draft, stacks))
}

fn sample_of<'a>(found: &'a [KernelRuns], row: &Row) -> Option<Sample<'a>> {
    let Method::Mechanism(Mechanism::Pin(mechanism)) = row.key.method else {
        return None;
    };
    let cell = Cell {
        interface: pin::interface(mechanism)?,
        shape: row.key.folio?,
    };
    let of_row = |of: &&KernelRuns| row.key.kernel == Some(of.hello.linux_version());
    found.iter().find(of_row)?.sample_of(cell, row)
}

fn check_host(request: &Request) -> Result<(), Error> {
    check_tools(request.arch, &request.kernels)?;
    let boots = request.kernels.len().max(1).min(capacity::cpus());
    let each = machine(request).memory_mib();
    let all = each * u64::try_from(boots).unwrap_or(u64::MAX);
    capacity::require_memory(all, "--folio, --pages or fewer --kernel")
}

fn machine(request: &Request) -> Machine {
    let huge = plan::huge_pages(&request.shapes, request.order.pages);
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxWithIommu(huge, request.iommu),
        pages_mib: 0,
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}

fn draft(
    request: &Request,
    materials: &Materials,
    found: &[KernelRuns],
    qemu: String,
) -> Result<Draft, LabError> {
    let rows: Vec<_> = found
        .iter()
        .flat_map(|of| rows::rows(request, of))
        .collect();
    require_a_figure(&rows)?;
    let versions = found.iter().map(|of| of.hello.linux_version());
    let stack = [
        ("linux", versions.collect::<Vec<_>>().join(", ")),
        ("qemu", qemu),
        ("iommu", request.iommu.described().to_owned()),
        ("guest-ram", machine(request).ram()),
    ];
    let stack = stack.into_iter().chain(part_of_stack(request.arch));
    Ok(Draft {
        stack: stack
            .map(|(part, version)| (part.to_owned(), version))
            .collect(),
        rows,
        notes: notes(request, found),
        inputs: inputs(request, materials)?,
        ..counted(Route::Pin, &request.order)
    })
}

/// A bill in which nothing has a figure is none.
fn require_a_figure(rows: &[Row]) -> Result<(), Error> {
    let reasons: Option<Vec<_>> = rows.iter().map(Row::why_unavailable).collect();
    match reasons.as_deref() {
        Some([first, ..]) => Err(Error::Environment {
            what: format!("nothing could be billed: {first}"),
            remedy: "order other memory with --folio, fewer --pages, or another --kernel"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

fn notes(request: &Request, found: &[KernelRuns]) -> Vec<String> {
    let of_boot = "4K, 64K and file follow the physical contiguity of the boot: see the runs";
    let notes = pin::NOTES.into_iter().chain([of_boot]);
    let mut notes: Vec<_> = notes.map(str::to_owned).collect();
    let iommufd = Interface::Iommufd;
    if request.interfaces().contains(&iommufd) {
        let without = found.iter().filter(|of| !of.has(iommufd));
        let note = |of: &KernelRuns| {
            let version = of.hello.linux_version();
            format!("iommufd: Linux {version} was built without it")
        };
        notes.extend(without.map(note));
    }
    if request.trace == Wanted::Yes {
        notes.push(
            "tolls by function: their parts are from a boot under function_graph, scaled to the cost without it"
                .to_owned(),
        );
    }
    notes
}

fn inputs(request: &Request, materials: &Materials) -> Result<Inputs, LabError> {
    let Materials { programs, kernels } = materials;
    let of_kernel = |Kernel { image: linux, .. }: &Kernel| {
        image(format!("linux-{}", linux.release), &linux.image)
    };
    let mut images: Vec<_> = kernels.iter().map(of_kernel).collect::<Result<_, _>>()?;
    images.push(image("init", &programs.init_file)?);
    images.push(image("pin-probe", &programs.probe_file)?);
    let packages = kernels.iter().flat_map(|kernel| &kernel.image.packages);
    Ok(Inputs {
        boots: vec![machine(request).command().to_string()],
        packages: packages.cloned().collect(),
        images,
        ..Inputs::default()
    })
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};
    use pagetoll_bill::route::Pin;
    use pagetoll_bill::{Figures, Operation, RowKey, System, Unavailable};
    use pagetoll_units::Pages;

    use super::*;

    #[test]
    fn a_bill_without_a_figure_is_refused_with_the_reason() {
        let key = || RowKey::new(Operation::Map, Pin::Kernel, System::Native);
        let none = || {
            let reason = Unavailable("no free hugepages of 2 MiB".to_owned());
            Row::new(key(), Pages(1), Err(reason))
        };
        let some = Row::new(key(), Pages(1), Figures::of_runs(vec![1.0]));
        assert!(require_a_figure(&[none(), some]).is_ok());
        let error = require_a_figure(&[none(), none()]).unwrap_err();
        assert_eq!(error.class(), Class::Environment);
        assert!(error.to_string().contains("no free hugepages of 2 MiB"));
    }
}
