//! Runs the boots of an order, side by side, and gathers what they report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use pagetoll_bill::Order;
use pagetoll_traces::xentrace::{Crossings, Windows};

use crate::clock::Clock;
use crate::dom0::findings::{Counted, Findings};
use crate::dom0::materials::Materials;
use crate::dom0::plan::{self, Abilities, Steps};
use crate::dom0::pv32;
use crate::error::LabError;
use crate::guest::initramfs::{self, Member};
use crate::guest::report::{Hello, Report};
use crate::request::{Request, pages_mib};
use crate::vm::boot::{self, Boot, Harvest};
use crate::vm::cores::Cores;
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use pagetoll_backend::Stop;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::dom0::Part;
use pagetoll_images::host;

/// What all boots brought.
pub(crate) struct Collected {
    /// The first dom0's greeting: what was run.
    pub(crate) hello: Hello,
    /// A 32-bit dom0's, where there was one.
    pub(crate) hello_of_pv32: Option<Hello>,
    pub(crate) findings: Findings,
}

/// One boot that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    kind: Kind,
    pub(crate) machine: Machine,
    steps: Vec<String>,
}

/// What a boot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Counts under Xen.
    Dom0,
    /// Counts without Xen.
    Native,
    /// Races under Xen.
    Race,
    /// Counts under Xen in a 32-bit guest.
    Pv32,
}

/// What boots are made from and where.
#[derive(Clone, Copy)]
pub(crate) struct Collect<'a> {
    pub(crate) request: &'a Request,
    pub(crate) materials: &'a Materials,
    pub(crate) surroundings: Surroundings<'a>,
    pub(crate) clock: &'a Clock,
}

impl Collect<'_> {
    /// Makes all boots; the first error ends the others.
    ///
    /// # Errors
    /// Whatever a boot says first.
    pub(crate) fn all(self, jobs: &[Job]) -> Result<Collected, LabError> {
        // A failed boot ends the others, without pretending that the user asked for it.
        let others = Stop::new();
        let first_error = Mutex::new(None);
        let results = self.side_by_side(jobs, &others, &first_error);
        self.surroundings.stop.check()?;
        if let Some(error) = first_error
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            return Err(error);
        }
        let made = results.into_iter().flatten();
        gather(jobs.iter().map(|job| job.kind).zip(made), self.materials)
    }

    /// What each boot brought; nothing of those that failed, the first of which is remembered.
    fn side_by_side(
        self,
        jobs: &[Job],
        stop: &Stop,
        first_error: &Mutex<Option<LabError>>,
    ) -> Vec<Option<Made>> {
        let cores = Cores::new(host::cpus());
        thread::scope(|scope| {
            let spawn = |job| {
                let work = Work {
                    all: self,
                    cores: &cores,
                    stop,
                };
                let remember = |error| remember(first_error, error, stop);
                scope.spawn(move || work.make(job).map_err(remember).ok())
            };
            let forward = scope.spawn(|| forward_stop(self.surroundings.stop, stop));
            let threads: Vec<_> = jobs.iter().map(spawn).collect();
            let joined = threads.into_iter().map(|thread| join(thread.join()));
            let results = joined.collect();
            stop.request();
            join(forward.join());
            results
        })
    }
}

/// A panic of a boot's thread goes on in this one, after every guest has been dropped.
fn join<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn remember(first: &Mutex<Option<LabError>>, error: LabError, stop: &Stop) {
    let mut first = first
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if first.is_none() {
        *first = Some(error);
    }
    stop.request();
}

/// Passes the user's wish to end on to the boots, until they have ended.
fn forward_stop(from: &Stop, to: &Stop) {
    while !to.requested() {
        if from.requested() {
            to.request();
        }
        thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The counting boots of an order: for each run a dom0 and a native kernel.
pub(crate) fn counting_jobs(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Job> {
    let dom0 = plan::counting(order, abilities, steps);
    let native = plan::native(order, steps);
    let of_run = |run| {
        [
            Job::new("dom0", (order, run), Kind::Dom0, dom0.clone()),
            Job::new("native", (order, run), Kind::Native, native.clone()),
        ]
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// The counting boots of an order whose mechanisms are what Xen is told: for each run and mechanism a dom0.
pub(crate) fn dom0_jobs(
    order: &Order,
    steps: &[String],
    xen: &[(&'static str, XenOptions)],
) -> Vec<Job> {
    let of_run = |run| {
        xen.iter().map(move |&(kind, options)| {
            let mut job = Job::new(kind, (order, run), Kind::Dom0, steps.to_vec());
            job.machine.xen = options;
            job
        })
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// The counting boots of a 32-bit dom0, one for each run.
pub(crate) fn pv32_jobs(order: &Order, steps: &[String]) -> Vec<Job> {
    let of_run = |run| Job::new("pv32", (order, run), Kind::Pv32, steps.to_vec());
    (1..=order.runs).map(of_run).collect()
}

/// A boot with two vCPUs that race.
pub(crate) fn race_job(order: &Order, steps: Vec<String>) -> Job {
    Job {
        name: "race".to_owned(),
        ..Job::new("race", (order, 1), Kind::Race, steps)
    }
}

impl Job {
    fn new(name: &str, (order, run): (&Order, u32), kind: Kind, steps: Vec<String>) -> Self {
        Self {
            name: if order.runs == 1 {
                name.to_owned()
            } else {
                format!("{name}-{run}")
            },
            kind,
            machine: Machine {
                mode: kind.mode(),
                firmware: kind.firmware(),
                pages_mib: pages_mib(order.pages),
                xen: XenOptions::Default,
            },
            steps,
        }
    }
}

impl Kind {
    const fn mode(self) -> Mode {
        match self {
            Self::Dom0 | Self::Native | Self::Pv32 => Mode::Counting,
            Self::Race => Mode::Race,
        }
    }

    /// The hypervisor, where there is one, and what it starts; or why this cannot be booted.
    fn images(self, materials: &Materials) -> Result<(Option<&Path>, &Path), String> {
        let xen = &materials.xen;
        let (xen, kernel) = match (self, &materials.pv32) {
            (Self::Native, _) => return Ok((None, &materials.kernel.image)),
            (Self::Pv32, Some(pv32)) => (pv32.xen.as_ref().map_err(Clone::clone)?, &pv32.kernel),
            (Self::Dom0 | Self::Race | Self::Pv32, _) => (xen, &materials.vmlinux),
        };
        Ok((Some(&xen.elf), kernel))
    }

    const fn firmware(self) -> Firmware {
        match self {
            Self::Dom0 | Self::Race | Self::Pv32 => Firmware::Xen,
            Self::Native => Firmware::Linux,
        }
    }
}

/// A boot's greeting, what it counted, and its other reports; or why there is no such guest.
type Made = Result<(Hello, Counted, Vec<Report>), String>;

/// All that a boot's thread needs.
#[derive(Clone, Copy)]
struct Work<'a> {
    all: Collect<'a>,
    cores: &'a Cores,
    stop: &'a Stop,
}

impl Work<'_> {
    fn make(self, job: &Job) -> Result<Made, LabError> {
        let Collect {
            request,
            materials,
            surroundings,
            clock,
        } = self.all;
        let (xen, linux) = match job.kind.images(materials) {
            Ok(images) => images,
            Err(reason) => return Ok(Err(reason)),
        };
        let initramfs = self.initramfs(job)?;
        let _cores = self.cores.take(job.machine.mode.cpus(), self.stop)?;
        let steps = u64::try_from(job.steps.len()).unwrap_or(u64::MAX);
        let mut phase = surroundings.progress.begin(&job.name, steps);
        let boot = Boot {
            name: &job.name,
            machine: job.machine,
            xen,
            linux,
            initramfs: &initramfs,
            counter: materials.counter.as_deref().ok(),
            silence: request.silence,
            keep_logs: request.keep_logs.as_deref(),
        };
        let work = || boot::run(boot, surroundings.cache, self.stop, phase.as_mut());
        match clock.time(&format!("boot {}", job.name), work) {
            Err(error) => refused(job, error),
            Ok(harvest) => self.understand(job, &harvest),
        }
    }

    fn initramfs(self, job: &Job) -> Result<Vec<u8>, Error> {
        let order = job
            .steps
            .iter()
            .map(|step| format!("{step}\n"))
            .collect::<String>();
        // A 32-bit guest has no file system: its second module is its order.
        if job.kind == Kind::Pv32 {
            return Ok(order.into_bytes());
        }
        let read = |path: &Path| fs::read(path).map_err(Error::io("read", path));
        let init = read(&self.all.materials.init)?;
        let probe = self
            .all
            .materials
            .probe
            .as_deref()
            .ok()
            .map(read)
            .transpose()?;
        let mut members = vec![
            Member {
                name: "init",
                mode: 0o755,
                bytes: &init,
            },
            Member {
                name: "order",
                mode: 0o644,
                bytes: order.as_bytes(),
            },
        ];
        if job.machine.firmware == Firmware::Xen {
            let module = |name, bytes| Member {
                name,
                mode: 0o644,
                bytes,
            };
            members.extend(
                probe
                    .as_deref()
                    .map(|bytes| module(plan::PROBE_MODULE, bytes)),
            );
            if let Part::Module(bytes) = &self.all.materials.privcmd {
                members.push(module(plan::PRIVCMD_MODULE, bytes));
            }
        }
        let place = self.all.surroundings.cache.root();
        initramfs::assemble(&members).map_err(Error::io("assemble an initramfs in", place))
    }

    fn understand(self, job: &Job, harvest: &Harvest) -> Result<Made, LabError> {
        let flushes = harvest.flushes()?;
        let mut counted = Counted {
            xen: job.machine.xen,
            flushes: flushes.map_err(|problem| senseless(job, problem))?,
            ..Counted::default()
        };
        let mut hello = None;
        let mut rest = Vec::new();
        for report in &harvest.reports {
            match report {
                Report::Hello(greeting) => hello = Some(greeting.clone()),
                Report::Clear(clear) => counted.clears.push(clear.clone()),
                Report::Repeat(repeat) => counted.repeats.push(repeat.clone()),
                Report::User(user) => counted.users.push(user.clone()),
                Report::Blob(blob) => {
                    let bytes = harvest.blob(blob)?;
                    self.keep_trace(job, &bytes)?;
                    counted.crossings =
                        crossings(&bytes).map_err(|problem| senseless(job, problem))?;
                }
                other => rest.push(other.clone()),
            }
        }
        let hello = hello.ok_or_else(|| senseless(job, "it never said hello".to_owned()))?;
        check_system(job, &hello)?;
        Ok(Ok((hello, counted, rest)))
    }

    fn keep_trace(self, job: &Job, bytes: &[u8]) -> Result<(), Error> {
        let Some(folder) = &self.all.request.keep_logs else {
            return Ok(());
        };
        let path = folder.join(format!("{}.xentrace", job.name));
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    }
}

fn crossings(bytes: &[u8]) -> Result<BTreeMap<u16, Crossings>, String> {
    Windows::read(bytes).map_err(|error| format!("its trace: {error}"))
}

/// A native boot must not be under Xen, a dom0 must be, and a race needs two CPUs.
fn check_system(job: &Job, hello: &Hello) -> Result<(), LabError> {
    let under_xen = !hello.xen.is_empty();
    let cpus = usize::try_from(hello.cpus).unwrap_or(0);
    if under_xen != (job.machine.firmware == Firmware::Xen) || cpus != job.machine.mode.cpus() {
        return Err(senseless(
            job,
            format!("it is not the system that was ordered: {hello:?}"),
        ));
    }
    Ok(())
}

fn senseless(job: &Job, problem: String) -> LabError {
    LabError::Malformed {
        boot: job.name.clone(),
        problem,
    }
}

/// A Xen that starts no 32-bit guest is an answer; whatever else went wrong is an error.
fn refused(job: &Job, error: LabError) -> Result<Made, LabError> {
    match &error {
        LabError::Guest { problem, .. } if job.kind == Kind::Pv32 => {
            let reason = pv32::refusal(problem).map(str::to_owned);
            reason.map(Err).ok_or(error)
        }
        _ => Err(error),
    }
}

fn gather(
    made: impl Iterator<Item = (Kind, Made)>,
    materials: &Materials,
) -> Result<Collected, LabError> {
    let mut findings = Findings {
        no_probe: materials.probe.as_ref().err().cloned(),
        ..Findings::default()
    };
    let (mut hello, mut hello_of_pv32) = (None, None);
    for (kind, made) in made {
        let (greeting, counted, rest) = match made {
            Ok(ran) => ran,
            Err(reason) => {
                findings.no_pv32 = Some(reason);
                continue;
            }
        };
        match kind {
            Kind::Dom0 => {
                hello.get_or_insert(greeting);
                findings.dom0.push(counted);
            }
            Kind::Native => findings.native.push(counted),
            Kind::Pv32 => {
                hello_of_pv32.get_or_insert(greeting);
                findings.pv32.push(counted);
            }
            Kind::Race => {
                findings
                    .races
                    .extend(rest.into_iter().filter_map(|report| match report {
                        Report::Race(race) => Some(race),
                        _ => None,
                    }))
            }
        }
    }
    let hello = hello.ok_or(Error::Stopped)?;
    Ok(Collected {
        hello,
        hello_of_pv32,
        findings,
    })
}
