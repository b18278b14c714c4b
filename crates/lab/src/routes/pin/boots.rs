//! Runs the boots of an order, of all its kernels side by side, and gathers what they report.

use std::{fs, slice};

use pagetoll_backend::Stop;
use pagetoll_bill::Row;
use pagetoll_bill::spec::Wanted;
use pagetoll_host::{Error, Surroundings, capacity};
use pagetoll_protocol::report::{Hello, PinTraced, Report};
use pagetoll_protocol::step::{self, Interface, PinStep};
use pagetoll_pv::pin::{self, Cell};

use super::materials::{Materials, may_have_iommufd};
use super::{Request, machine, plan};
use crate::draft::Clock;
use crate::linux::{Kernel, NativeBoot};
use crate::profile::{ProbeProfile, Sample};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::cores::{Cores, side_by_side};
use pagetoll_lab_vm::counter::Counter;

/// Reports of a boot.
#[derive(Clone, Debug, Default)]
pub(super) struct PinRun {
    pub(super) hello: Option<Hello>,
    pub(super) bill: pin::Reports,
    pub(super) traced: Vec<PinTraced>,
    /// The text of function_graph.
    pub(super) graph: Option<String>,
    /// Code that was executed, where it was counted.
    pub(super) profiled: Option<ProbeProfile>,
}

/// Reports of all boots of a kernel: one for each run, and the traced one.
pub(super) struct KernelRuns {
    pub(super) hello: Hello,
    pub(super) runs: Vec<PinRun>,
    pub(super) traced: Option<PinRun>,
}

impl KernelRuns {
    /// Returns whether memory was mapped through an interface.
    pub(super) fn has(&self, interface: Interface) -> bool {
        let mut pins = self.runs.iter().flat_map(|run| &run.bill.pins);
        pins.any(|pin| pin.interface == interface)
    }

    /// Code that the first run has executed for a row.
    pub(super) fn sample_of(&self, cell: Cell, row: &Row) -> Option<Sample<'_>> {
        let run = self.runs.first()?;
        let profiled = run.profiled.as_ref()?;
        let step = run.bill.step_of(cell, row.key.operation)?;
        profiled.sample(step, row)
    }
}

/// Boots of one order on its kernels.
#[derive(Clone, Copy)]
pub(super) struct Boots<'a> {
    pub(super) request: &'a Request,
    pub(super) materials: &'a Materials,
    /// The plugin that counts beside the clock.
    pub(super) counter: Option<&'a Counter>,
    pub(super) clock: &'a Clock,
    pub(super) surroundings: Surroundings<'a>,
}

/// One boot.
struct Job<'a> {
    /// For progress and logs.
    name: String,
    kernel: &'a Kernel,
    /// True where functions are traced, by function_graph.
    is_traced: bool,
    /// The steps of the probe.
    steps: Vec<PinStep>,
}

/// Makes all boots, as many at once as the host has CPUs.
///
/// # Errors
/// Whatever a boot says first.
pub(super) fn run(boots: Boots<'_>) -> Result<Vec<KernelRuns>, LabError> {
    let kernels = boots.materials.kernels.iter();
    let kernels_jobs: Vec<Vec<Job<'_>>> =
        kernels.map(|kernel| jobs(boots.request, kernel)).collect();
    let all: Vec<&Job<'_>> = kernels_jobs.iter().flatten().collect();
    let cores = Cores::new(capacity::cpus());
    let make = |job: &&Job<'_>, stop: &Stop| one(job, boots, &cores, stop);
    let mut found = side_by_side(&all, boots.surroundings.stop, make)?.into_iter();
    kernels_jobs
        .iter()
        .map(|jobs| kernel_runs(jobs, &mut found))
        .collect()
}

fn kernel_runs(
    jobs: &[Job<'_>],
    found: &mut impl Iterator<Item = PinRun>,
) -> Result<KernelRuns, LabError> {
    let mut all = KernelRuns {
        hello: Hello::default(),
        runs: Vec::new(),
        traced: None,
    };
    for (job, found) in jobs.iter().zip(found) {
        all.hello = found.hello.clone().ok_or_else(|| LabError::Malformed {
            boot: job.name.clone(),
            problem: "it never said hello".to_owned(),
        })?;
        if found.graph.is_some() {
            all.traced = Some(found);
        } else {
            all.runs.push(found);
        }
    }
    Ok(all)
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

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other reports are of other routes"
)]
fn one(job: &Job<'_>, boots: Boots<'_>, cores: &Cores, stop: &Stop) -> Result<PinRun, LabError> {
    let _core = cores.take(1, stop)?;
    let surroundings = Surroundings {
        stop,
        ..boots.surroundings
    };
    let request = boots.request;
    // Of the traced boot nothing is counted.
    let counter = boots.counter.filter(|_| !job.is_traced);
    let publish = ProbeProfile::publish(counter);
    let boot = NativeBoot {
        name: &job.name,
        kernel: job.kernel,
        programs: &boots.materials.programs,
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
    let guest_run = boot.run(job.steps.len() + 1, surroundings)?;
    boots.clock.counted_before(guest_run.counted);
    let mut found = PinRun {
        profiled: ProbeProfile::new(&boot, &guest_run)?,
        ..PinRun::default()
    };
    for report in &guest_run.reports {
        match report {
            Report::Hello(hello) => found.hello = Some(hello.clone()),
            Report::Pin(pin) => found.bill.pins.push(pin.clone()),
            Report::PinUnavailable(shape) => found.bill.unavailable.push(shape.clone()),
            Report::PinTraced(traced) => found.traced.push(traced.clone()),
            Report::Blob(blob) if job.is_traced => {
                let text = String::from_utf8_lossy(&guest_run.blob(blob)?).into_owned();
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
