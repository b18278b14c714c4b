//! VFIO on this host: memory of several shapes is mapped for a device's DMA and unmapped.
//!
//! By the probe that the lab runs in its guests, through the same interfaces. The device is not driven: its DMA is asked for
//! only where it is the one of the lab. Of the host, only the device's driver is changed, and given back.

mod request;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Timing};
use pagetoll_bill::route::Pin as Mechanism;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{Draft, HostLoad, Operation, Route, Row, RowKey, System};
use pagetoll_host::cache::Cache;
use pagetoll_protocol::report::Report;
use pagetoll_protocol::step::{self, PinStep};
use pagetoll_pv::pin::{self, Cell, Reports};

pub(crate) use self::request::Request;
use crate::pci::{Binding, Device};
use crate::program::{PIN_PROBE, Program, Ran};
use crate::undo::{Change, Guardian};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::host::{self, Watch};

const PHASE: &str = "mapping memory for DMA";

/// A device, and what binding it replaces where it has to be bound.
struct Usable {
    device: Device,
    binding: Option<Binding>,
}

/// Bills the route with the device that was given.
///
/// # Errors
/// Not the superuser, no IOMMU, a device that cannot be had, a step that fails, a stop.
pub(crate) fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    let usable = usable(request)?;
    host::require_memory(4096 * request.order.pages.get())?;
    let watch = Watch::begin()?;
    let found = collect(request, &usable, context)?;
    let load = watch.end()?;
    Ok(Billed {
        draft: draft(request, &usable.device, &found, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// The device, where this user can have it.
fn usable(request: &Request) -> Result<Usable, LiveError> {
    let device = Device::find(&request.device)?;
    if !rustix::process::geteuid().is_root() {
        return Err(LiveError::environment(
            "this user may not bind devices and see where pages lie",
            "be root",
        ));
    }
    device.require_viable_group()?;
    let binding = match device.is_bound_to_vfio() {
        true => None,
        false => Some(device.binding(request.binds)?),
    };
    Ok(Usable { device, binding })
}

fn collect(
    request: &Request,
    Usable { device, binding }: &Usable,
    context: &Context<'_>,
) -> Result<Vec<Reports>, LiveError> {
    let cache = Cache::open(context.stop)?;
    let program = Program::install(PIN_PROBE, &cache, context.stop)?;
    let mut guardian = Guardian::start()?;
    if let Some(binding) = binding {
        guardian.expect(&Change::Driver(binding.clone()))?;
        device.bind()?;
    }
    let order = step::order(&steps(request, device));
    let runs = request.order.runs;
    let mut phase = context.progress.begin_timed(PHASE, runs.into());
    let mut found = Vec::new();
    for run in 1..=runs {
        phase.step(&format!("run {run}"));
        found.push(found_in(program.run(&order)?));
    }
    guardian.finish()?;
    Ok(found)
}

fn steps(request: &Request, device: &Device) -> Vec<PinStep> {
    let bound = [PinStep::Bound(device.address().to_owned())].into_iter();
    let interfaces: Vec<_> = request
        .interfaces()
        .map(|(_, interface)| interface)
        .collect();
    let work = pin::steps(&request.shapes, request.order.pages, &interfaces);
    bound.chain(work).collect()
}

/// In nanoseconds.
fn found_in(ran: Ran) -> Reports {
    let mut found = Reports::default();
    for report in ran.reports {
        match report {
            Report::Pin(pin) => found.pins.push(pin.in_units(ran.tick)),
            Report::PinUnavailable(reason) => found.unavailable.push(reason),
            _ => {}
        }
    }
    found
}

fn draft(request: &Request, device: &Device, found: &[Reports], load: HostLoad) -> Draft {
    let mut stack = host::stack();
    stack.extend(device.iommu().map(|iommu| ("iommu".to_owned(), iommu)));
    let notes = pin::NOTES.into_iter().map(str::to_owned);
    let rows = rows(request, found);
    host::draft(Route::Pin, stack, &request.order, rows, notes, load)
}

fn rows(request: &Request, found: &[Reports]) -> Vec<Row> {
    let runs: Vec<_> = found.iter().collect();
    let mut rows = Vec::new();
    for (mechanism, interface) in request.interfaces() {
        for operation in pin::OPERATIONS {
            let shapes = request.shapes.iter();
            rows.extend(shapes.map(|&shape| {
                let key = key(operation, mechanism, shape);
                let cell = Cell { interface, shape };
                pin::row(key, cell, request.order.pages, &runs, |_| None)
            }));
        }
    }
    rows
}

fn key(operation: Operation, mechanism: Mechanism, shape: Folio) -> RowKey {
    RowKey {
        folio: Some(shape),
        ..RowKey::new(operation, mechanism, System::Native)
    }
}

/// What [`bill`] would do to this host.
///
/// # Errors
/// As [`bill`], as far as that is known before anything is done.
pub(crate) fn intentions(request: &Request) -> Result<Vec<String>, LiveError> {
    let Usable { device, binding } = usable(request)?;
    let address = device.address();
    let bind = match &binding {
        None => format!("open {address}, which is bound to vfio-pci"),
        Some(binding) => format!("bind {address} to vfio-pci, taken from {}", binding.owner()),
    };
    let back = binding.map(|binding| {
        format!(
            "give {address} back to {}, also after Ctrl-C or SIGKILL: a process of its own waits for that",
            binding.owner()
        )
    });
    let pages = request.order.pages.get();
    let work = format!(
        "{} times, map up to {pages} pages ({} MiB) of its own for the device's DMA, read them there where it is QEMU's \
         edu device, and unmap them",
        request.order.runs,
        pages.div_ceil(256),
    );
    let huge = "take hugepages that are free, and no others".to_owned();
    Ok([bind, work, huge].into_iter().chain(back).collect())
}
