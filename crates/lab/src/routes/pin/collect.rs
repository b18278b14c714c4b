//! Runs the boots of an order, as many at once as the host has CPUs, and gathers what they report.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::guest::{self, Job, Manner};
use super::materials::{Kernel, Programs};
use super::{Request, machine, plan};
use crate::error::LabError;
use crate::guest::report::{Hello, Pin, PinTraced, PinUnavailable, Report};
use crate::vm::cores::Cores;
use pagetoll_backend::Stop;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::host;

/// What a boot brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) hello: Option<Hello>,
    pub(super) pins: Vec<Pin>,
    pub(super) unavailable: Vec<PinUnavailable>,
    pub(super) traced: Vec<PinTraced>,
    /// The text of function_graph.
    pub(super) graph: Option<String>,
}

/// What all boots of a kernel brought: one for each run, and the traced one.
pub(super) struct OfKernel {
    pub(super) hello: Hello,
    pub(super) runs: Vec<Found>,
    pub(super) traced: Option<Found>,
}

impl OfKernel {
    /// Whether memory was mapped through an interface.
    pub(super) fn has(&self, interface: &str) -> bool {
        let mut pins = self.runs.iter().flat_map(|run| &run.pins);
        pins.any(|pin| pin.interface == interface)
    }
}

/// Everything that boots need.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) request: &'a Request,
    pub(super) programs: &'a Programs,
    pub(super) surroundings: Surroundings<'a>,
}

/// Makes all boots; the first error ends the others.
///
/// # Errors
/// Whatever a boot says first.
pub(super) fn collect(work: Work<'_>, kernels: &[Kernel]) -> Result<Vec<OfKernel>, LabError> {
    let jobs: Vec<_> = kernels
        .iter()
        .enumerate()
        .flat_map(|(index, kernel)| jobs(work.request, kernel).map(move |job| (index, job)))
        .collect();
    let found = side_by_side(&jobs, work)?;
    let mut all: Vec<_> = kernels.iter().map(|_| Vec::new()).collect();
    for ((index, job), found) in jobs.iter().zip(found) {
        all[*index].push((job, found));
    }
    all.into_iter().map(of_kernel).collect()
}

fn of_kernel(found: Vec<(&Job<'_>, Found)>) -> Result<OfKernel, LabError> {
    let mut of = OfKernel {
        hello: Hello::default(),
        runs: Vec::new(),
        traced: None,
    };
    for (job, found) in found {
        let hello = found.hello.clone().ok_or_else(|| LabError::Malformed {
            boot: job.name.clone(),
            problem: "it never said hello".to_owned(),
        })?;
        of.hello = hello;
        if found.graph.is_some() {
            of.traced = Some(found);
        } else {
            of.runs.push(found);
        }
    }
    Ok(of)
}

fn jobs<'a>(request: &Request, kernel: &'a Kernel) -> impl Iterator<Item = Job<'a>> {
    let mut interfaces = Vec::new();
    let asked = |name: &str| request.order.mechanisms.iter().any(|other| other == name);
    if asked("kernel") {
        interfaces.push("type1");
    }
    if asked("iommufd") && kernel.may_have_iommufd() {
        interfaces.push("iommufd");
    }
    let release = &kernel.image.release;
    let job = |name, order| Job {
        name,
        kernel,
        machine: machine(request),
        order,
        file: None,
    };
    let bill = plan::bill(&request.shapes, request.order.pages, &interfaces);
    let name = |run| match request.order.runs {
        1 => format!("pin-{release}"),
        _ => format!("pin-{release}-{run}"),
    };
    let runs = 1..=request.order.runs;
    let mut jobs: Vec<_> = runs.map(|run| job(name(run), bill.clone())).collect();
    if request.tracing == super::Tracing::FunctionGraph {
        let order = plan::trace(&request.shapes, request.order.pages);
        jobs.push(job(format!("pin-{release}-trace"), order));
    }
    jobs.into_iter()
}

fn side_by_side(jobs: &[(usize, Job<'_>)], work: Work<'_>) -> Result<Vec<Found>, LabError> {
    let cores = Cores::new(host::cpus());
    // A failed boot ends the others, without pretending that the user asked for it.
    let others = Stop::new();
    let first_error = Mutex::new(None);
    let found: Vec<_> = thread::scope(|scope| {
        let spawn = |job| {
            let (cores, others, first_error) = (&cores, &others, &first_error);
            scope.spawn(move || {
                one(job, work, (cores, others)).map_err(|error| {
                    let mut first = first_error
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    first.get_or_insert(error);
                    others.request();
                })
            })
        };
        let threads: Vec<_> = jobs.iter().map(|(_, job)| spawn(job)).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            if work.surroundings.stop.requested() {
                others.request();
            }
            thread::sleep(Duration::from_millis(20));
        }
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    work.surroundings.stop.check()?;
    let first = first_error.into_inner();
    match first.unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(found.into_iter().filter_map(Result::ok).collect()),
    }
}

fn one(job: &Job<'_>, work: Work<'_>, (cores, stop): (&Cores, &Stop)) -> Result<Found, LabError> {
    let _core = cores.take(1, stop)?;
    let steps = u64::try_from(job.order.lines().count()).unwrap_or(u64::MAX) + 1;
    let surroundings = Surroundings {
        stop,
        ..work.surroundings
    };
    let mut phase = surroundings.progress.begin(&job.name, steps);
    let manner = Manner {
        silence: work.request.silence,
        keep_logs: work.request.keep_logs.as_deref(),
    };
    let harvest = guest::run(job, work.programs, manner, (surroundings, phase.as_mut()))?;
    let mut found = Found::default();
    for report in &harvest.reports {
        match report {
            Report::Hello(hello) => found.hello = Some(hello.clone()),
            Report::Pin(pin) => found.pins.push(pin.clone()),
            Report::PinUnavailable(shape) => found.unavailable.push(shape.clone()),
            Report::PinTraced(traced) => found.traced.push(traced.clone()),
            Report::Blob(blob) => {
                let text = String::from_utf8_lossy(&harvest.blob(blob)?).into_owned();
                keep(manner.keep_logs, &job.name, &text)?;
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
