//! Runs the boots of an order, of all its kernels side by side, and gathers what they report.

use std::{fs, slice};

use pagetoll_bill::Row;
use pagetoll_bill::spec::Wanted;

use super::materials::{Materials, may_have_iommufd};
use super::{Request, machine, plan};
use crate::clock::Clock;
use crate::error::LabError;
use crate::linux::{Kernel, NativeBoot};
use crate::profile::{OfProbe, Sample};
use crate::vm::cores::Cores;
use crate::vm::counter::Counter;
use crate::vm::side_by_side::side_by_side;
use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::capacity;
use pagetoll_protocol::report::{Hello, PinTrace, Report};
use pagetoll_protocol::step::{self, Interface, PinStep};
use pagetoll_pv::pin::{self, Cell};

/// What a boot brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) hello: Option<Hello>,
    pub(super) bill: pin::PinFindings,
    pub(super) traced: Vec<PinTrace>,
    /// The text of function_graph.
    pub(super) graph: Option<String>,
    /// Where the code was counted.
    pub(super) profiled: Option<OfProbe>,
}

/// What all boots of a kernel brought: one for each run, and the traced one.
pub(super) struct OfKernel {
    pub(super) hello: Hello,
    pub(super) runs: Vec<Found>,
    pub(super) traced: Option<Found>,
}

impl OfKernel {
    /// Whether memory was mapped through an interface.
    pub(super) fn has(&self, interface: Interface) -> bool {
        let mut pins = self.runs.iter().flat_map(|run| &run.bill.pins);
        pins.any(|pin| pin.interface == interface)
    }

    /// What the first run has executed for a row.
    pub(super) fn sample_of(&self, cell: Cell, row: &Row) -> Option<Sample<'_>> {
        let run = self.runs.first()?;
        let profiled = run.profiled.as_ref()?;
        let step = run.bill.step_of(cell, row.key.operation)?;
        profiled.sample(step, row)
    }
}

/// Everything that boots need.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) request: &'a Request,
    pub(super) materials: &'a Materials,
    /// What counts beside the clock.
    pub(super) counter: Option<&'a Counter>,
    pub(super) clock: &'a Clock,
    pub(super) surroundings: Surroundings<'a>,
}

/// One boot.
struct Job<'a> {
    /// For progress and logs.
    name: String,
    kernel: &'a Kernel,
    /// What the probe does.
    /// By function_graph.
    is_traced: bool,
    steps: Vec<PinStep>,
}

/// Makes all boots, as many at once as the host has CPUs.
///
/// # Errors
/// Whatever a boot says first.
pub(super) fn collect(work: Work<'_>) -> Result<Vec<OfKernel>, LabError> {
    let kernels = work.materials.kernels.iter();
    let of_kernels: Vec<Vec<Job<'_>>> = kernels.map(|kernel| jobs(work.request, kernel)).collect();
    let all: Vec<&Job<'_>> = of_kernels.iter().flatten().collect();
    let cores = Cores::new(capacity::cpus());
    let make = |job: &&Job<'_>, stop: &Stop| one(job, work, &cores, stop);
    let mut found = side_by_side(&all, work.surroundings.stop, make)?.into_iter();
    of_kernels
        .iter()
        .map(|jobs| of_kernel(jobs, &mut found))
        .collect()
}

fn of_kernel(
    jobs: &[Job<'_>],
    found: &mut impl Iterator<Item = Found>,
) -> Result<OfKernel, LabError> {
    let mut of = OfKernel {
        hello: Hello::default(),
        runs: Vec::new(),
        traced: None,
    };
    for (job, found) in jobs.iter().zip(found) {
        of.hello = found.hello.clone().ok_or_else(|| LabError::Malformed {
            boot: job.name.clone(),
            problem: "it never said hello".to_owned(),
        })?;
        if found.graph.is_some() {
            of.traced = Some(found);
        } else {
            of.runs.push(found);
        }
    }
    Ok(of)
}

fn jobs<'a>(request: &Request, kernel: &'a Kernel) -> Vec<Job<'a>> {
    let interfaces = request.interfaces();
    let has = |interface: &Interface| match interface {
        Interface::Type1 => true,
        Interface::Iommufd => may_have_iommufd(kernel),
    };
    let interfaces: Vec<_> = interfaces.into_iter().filter(has).collect();
    let release = &kernel.image.release;
    let job = |name, is_traced, steps| Job {
        name,
        kernel,
        is_traced,
        steps,
    };
    let order = &request.order;
    let bill = plan::bill(&request.shapes, order.pages, &interfaces);
    let name = |run| match order.runs {
        1 => format!("pin-{release}"),
        _ => format!("pin-{release}-{run}"),
    };
    let runs = 1..=order.runs;
    let mut jobs: Vec<_> = runs
        .map(|run| job(name(run), false, bill.clone()))
        .collect();
    if request.trace == Wanted::Yes {
        let steps = plan::trace(&request.shapes, order.pages);
        jobs.push(job(format!("pin-{release}-trace"), true, steps));
    }
    jobs
}

fn one(job: &Job<'_>, work: Work<'_>, cores: &Cores, stop: &Stop) -> Result<Found, LabError> {
    let _core = cores.take(1, stop)?;
    let steps = u64::try_from(job.steps.len()).unwrap_or(u64::MAX) + 1;
    let surroundings = Surroundings {
        stop,
        ..work.surroundings
    };
    let mut phase = surroundings.progress.begin(&job.name, steps);
    let request = work.request;
    // Of the traced boot nothing is counted.
    let counter = work.counter.filter(|_| !job.is_traced);
    let publish = OfProbe::publish(counter);
    let boot = NativeBoot {
        name: &job.name,
        kernel: job.kernel,
        programs: &work.materials.programs,
        machine: machine(request),
        probe_order: step::order(&job.steps),
        counter,
        last: match job.is_traced {
            false => slice::from_ref(&publish),
            true => &[],
        },
        file: None,
        options: &request.options,
    };
    let harvest = boot.run(surroundings, phase.as_mut())?;
    work.clock.counted_before(harvest.counted);
    let mut found = Found {
        profiled: OfProbe::of(&boot, &harvest)?,
        ..Found::default()
    };
    for report in &harvest.reports {
        match report {
            Report::Hello(hello) => found.hello = Some(hello.clone()),
            Report::Pin(pin) => found.bill.pins.push(pin.clone()),
            Report::PinUnavailable(shape) => found.bill.unavailable.push(shape.clone()),
            Report::PinTraced(traced) => found.traced.push(traced.clone()),
            Report::Blob(blob) if job.is_traced => {
                let text = String::from_utf8_lossy(&harvest.blob(blob)?).into_owned();
                keep(boot.options.logs(), &job.name, &text)?;
                found.graph = Some(text);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn keep(folder: Option<&std::path::Path>, name: &str, text: &str) -> Result<(), Error> {
    let Some(folder) = folder else { return Ok(()) };
    let path = folder.join(format!("{name}.function-graph.txt"));
    fs::write(&path, text).map_err(Error::io("write", &path))
}
