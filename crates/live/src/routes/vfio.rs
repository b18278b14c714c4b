//! VFIO on this host: memory of several shapes is mapped for a device's DMA and unmapped.
//!
//! By the probe that the lab runs in its guests, through the same interfaces. The device is not driven: its DMA is asked for
//! only where it is the one of the lab. Of the host, only the device's driver is changed, and given back.

mod request;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Timing};
use pagetoll_bill::route::Pin as Mechanism;
use pagetoll_bill::row::Folio;
use pagetoll_bill::{
    Backend, Draft, Evidence, HostLoad, Inputs, Operation, Route, Row, RowKey, System, Unit,
};
use pagetoll_guest::pin;
use pagetoll_guest::report::{Pin, PinUnavailable, Report};
use pagetoll_guest::step::{self, Interface, PinStep};
use pagetoll_images::cache::Cache;

pub(crate) use self::request::Request;
use crate::LiveError;
use crate::host::{self, Watch};
use crate::pci::Device;
use crate::program::{PIN_PROBE, Program, Ran};
use crate::undo::{Change, Guardian};

const PHASE: &str = "mapping memory for DMA";

/// What one run found, in nanoseconds.
#[derive(Debug, Default)]
struct Found {
    pins: Vec<Pin>,
    unavailable: Vec<PinUnavailable>,
}

/// Bills the route with the device that was given.
///
/// # Errors
/// Not the superuser, no IOMMU, a device that cannot be had, a step that fails, a stop.
pub(crate) fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    let device = usable(request)?;
    host::require_memory(4096 * request.order.pages.get())?;
    let watch = Watch::begin()?;
    let found = collect(request, &device, context)?;
    let load = watch.end()?;
    Ok(Billed {
        draft: draft(request, &device, &found, load),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// The device, where this user can have it.
fn usable(request: &Request) -> Result<Device, LiveError> {
    let device = Device::find(&request.device)?;
    if !rustix::process::geteuid().is_root() {
        return Err(LiveError::environment(
            "this user may not bind devices and see where pages lie",
            "be root",
        ));
    }
    device.require_viable_group()?;
    if !device.is_bound_to_vfio() {
        device.binding(request.binds)?;
    }
    Ok(device)
}

fn collect(
    request: &Request,
    device: &Device,
    context: &Context<'_>,
) -> Result<Vec<Found>, LiveError> {
    let cache = Cache::open(context.stop)?;
    let program = Program::install(PIN_PROBE, &cache, context.stop)?;
    let mut guardian = Guardian::start()?;
    if !device.is_bound_to_vfio() {
        guardian.expect(&Change::Driver(device.binding(request.binds)?))?;
        device.bind()?;
    }
    let order = step::order(&steps(request, device));
    let runs = request.order.runs;
    let mut phase = context.progress.begin_timed(PHASE, runs.into());
    let mut found = Vec::new();
    for run in 1..=runs {
        phase.step(&format!("run {run}"));
        found.push(Found::of(program.run(&order)?));
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

impl Found {
    fn of(ran: Ran) -> Self {
        let mut found = Self::default();
        for report in ran.reports {
            match report {
                Report::Pin(pin) => found.pins.push(pin.in_units(ran.tick)),
                Report::PinUnavailable(reason) => found.unavailable.push(reason),
                _ => {}
            }
        }
        found
    }
}

fn draft(request: &Request, device: &Device, found: &[Found], load: HostLoad) -> Draft {
    let mut stack = host::stack();
    stack.extend(device.iommu().map(|iommu| ("iommu".to_owned(), iommu)));
    let notes = pin::NOTES.into_iter().map(str::to_owned);
    Draft {
        backend: Backend::Live,
        route: Route::Pin,
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack,
        order: request.order.clone(),
        rows: rows(request, found),
        notes: notes.chain(host::busy_note(load)).collect(),
        inputs: Inputs {
            host_load: Some(load),
            ..Inputs::default()
        },
    }
}

fn rows(request: &Request, found: &[Found]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (mechanism, interface) in request.interfaces() {
        for operation in pin::OPERATIONS {
            let shapes = request.shapes.iter();
            rows.extend(shapes.map(|&shape| {
                let key = key(operation, mechanism, shape);
                row(key, interface, shape, request, found)
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

fn row(key: RowKey, interface: Interface, shape: Folio, request: &Request, found: &[Found]) -> Row {
    let pages = pin::pages(shape, request.order.pages);
    let of_run = |run: &'_ Found| {
        let mut pins = run.pins.iter();
        pins.find(|pin| pin.shape == shape && pin.interface == interface)
            .cloned()
    };
    let pins: Vec<Pin> = found.iter().filter_map(of_run).collect();
    let pins: Vec<&Pin> = pins.iter().collect();
    let why = || {
        let mut all = found.iter().flat_map(|run| &run.unavailable);
        let report = all.find(|one| one.shape == shape && one.interface == interface);
        report.map_or_else(
            || "it was not reported".to_owned(),
            |one| one.reason.clone(),
        )
    };
    pin::row(key.clone(), pages, &pins, |_| None)
        .unwrap_or_else(|| Row::unavailable(key, pages, why()))
}

/// What [`bill`] would do to this host.
///
/// # Errors
/// As [`bill`], as far as that is known before anything is done.
pub(crate) fn intentions(request: &Request) -> Result<Vec<String>, LiveError> {
    let device = usable(request)?;
    let address = device.address();
    let (bind, back) = if device.is_bound_to_vfio() {
        (format!("open {address}, which is bound to vfio-pci"), None)
    } else {
        let binding = device.binding(request.binds)?;
        let back = format!(
            "give {address} back to {}, also after Ctrl-C or SIGKILL: a process of its own waits for that",
            binding.owner()
        );
        (
            format!("bind {address} to vfio-pci, taken from {}", binding.owner()),
            Some(back),
        )
    };
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
