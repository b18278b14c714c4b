//! Runs the boots of an order, side by side, and gathers what they report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pagetoll_bill::Order;
use pagetoll_traces::xentrace::{Crossings, Windows};

use crate::clock::Clock;
use crate::dom0::findings::{Counted, Findings};
use crate::dom0::materials::Materials;
use crate::dom0::plan::{self, Abilities, Steps};
use crate::dom0::pv32;
use crate::error::LabError;
use crate::guest::initramfs::Initramfs;
use crate::guest::report::{Hello, Race, Report};
use crate::guest::step::{self, Step};
use crate::request::{Bench, pages_mib};
use crate::vm::boot::{self, Boot, Harvest};
use crate::vm::cores::Cores;
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use crate::vm::side_by_side::side_by_side;
use pagetoll_backend::Stop;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::host;
use pagetoll_images::kernel::dom0::Part;

/// What all boots brought.
pub(crate) struct Collected {
    /// The first dom0's greeting: what was run.
    pub(crate) hello: Hello,
    /// A 32-bit dom0's, where there was one.
    pub(crate) hello_of_pv32: Option<Hello>,
    pub(crate) findings: Findings,
}

/// One boot, before it is made.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    kind: Kind,
    pub(crate) machine: Machine,
    steps: Vec<Step>,
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
    pub(crate) bench: &'a Bench<'a>,
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
        let cores = Cores::new(host::cpus());
        let make = |job: &Job, stop: &Stop| {
            let work = Work {
                all: self,
                cores: &cores,
                stop,
            };
            work.make(job)
        };
        let made = side_by_side(jobs, self.surroundings.stop, make)?;
        gather(jobs, made, self.materials)
    }
}

/// The counting boots of an order: for each run a dom0 and a native kernel.
pub(crate) fn counting_jobs(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Job> {
    let dom0 = plan::counting(order, abilities, steps);
    let native = plan::native(order, steps);
    let of_run = |run| {
        [
            Job::new("dom0", order, run, Kind::Dom0, dom0.clone()),
            Job::new("native", order, run, Kind::Native, native.clone()),
        ]
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// A mechanism that is Xen's choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionsOfXen {
    /// The mechanism's name.
    pub(crate) name: &'static str,
    pub(crate) options: XenOptions,
}

/// The counting boots of an order whose mechanisms are options of Xen: for each run and mechanism a dom0.
pub(crate) fn dom0_jobs(order: &Order, steps: &[Step], xens: &[OptionsOfXen]) -> Vec<Job> {
    let of_run = |run| {
        xens.iter().map(move |xen| {
            let mut job = Job::new(xen.name, order, run, Kind::Dom0, steps.to_vec());
            job.machine.xen = xen.options;
            job
        })
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// The counting boots of a 32-bit dom0, one for each run.
pub(crate) fn pv32_jobs(order: &Order, steps: &[Step]) -> Vec<Job> {
    let of_run = |run| Job::new("pv32", order, run, Kind::Pv32, steps.to_vec());
    (1..=order.runs).map(of_run).collect()
}

/// A boot with two vCPUs that race.
pub(crate) fn race_job(order: &Order, steps: Vec<Step>) -> Job {
    Job {
        name: "race".to_owned(),
        ..Job::new("race", order, 1, Kind::Race, steps)
    }
}

impl Job {
    fn new(name: &str, order: &Order, run: u32, kind: Kind, steps: Vec<Step>) -> Self {
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
            Self::Race => Mode::PAIR,
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

/// What a boot reported.
struct Ran {
    hello: Hello,
    counted: Counted,
    races: Vec<Race>,
}

/// What a boot reported, or why there is no such guest.
type Made = Result<Ran, String>;

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
            bench,
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
            timeout: bench.request.timeout,
            keep_logs: bench.keep_logs.as_deref(),
        };
        let work = || boot::run(boot, surroundings.cache, self.stop, phase.as_mut());
        match clock.time(&format!("boot {}", job.name), work) {
            Err(error) => refused(job, error),
            Ok(harvest) => self.understand(job, &harvest),
        }
    }

    fn initramfs(self, job: &Job) -> Result<Vec<u8>, Error> {
        let order = step::order(&job.steps);
        // A 32-bit guest has no file system: its second module is its order.
        if job.kind == Kind::Pv32 {
            return Ok(order.into_bytes());
        }
        let materials = self.all.materials;
        let mut initramfs = Initramfs::default();
        initramfs.program("init", &materials.init)?;
        initramfs.file("order", order.into_bytes());
        if job.machine.firmware == Firmware::Xen {
            if let Ok(probe) = &materials.probe {
                let bytes = fs::read(probe).map_err(Error::io("read", probe))?;
                initramfs.file(plan::PROBE_MODULE, bytes);
            }
            if let Part::Module(bytes) = &materials.privcmd {
                initramfs.file(plan::PRIVCMD_MODULE, bytes.as_slice());
            }
        }
        initramfs.archive()
    }

    fn understand(self, job: &Job, harvest: &Harvest) -> Result<Made, LabError> {
        let flushes = harvest.flushes()?;
        let mut counted = Counted {
            xen: job.machine.xen,
            flushes: flushes.map_err(|problem| malformed(job, problem))?,
            ..Counted::default()
        };
        let mut hello = None;
        let mut races = Vec::new();
        for report in &harvest.reports {
            match report {
                Report::Hello(greeting) => hello = Some(greeting.clone()),
                Report::Clear(clear) => counted.clears.push(clear.clone()),
                Report::Repeat(repeat) => counted.repeats.push(repeat.clone()),
                Report::User(user) => counted.users.push(user.clone()),
                Report::Foreign(foreign) => counted.foreign.push(foreign.clone()),
                Report::ForeignReleased(released) => counted.released = Some(*released),
                Report::ForeignUnavailable(reason) => counted.no_foreign = Some(*reason),
                Report::Blob(blob) => {
                    let bytes = harvest.blob(blob)?;
                    self.keep_trace(job, &bytes)?;
                    counted.crossings =
                        crossings(&bytes).map_err(|problem| malformed(job, problem))?;
                }
                Report::Race(race) => races.push(race.clone()),
                _ => {}
            }
        }
        let hello = hello.ok_or_else(|| malformed(job, "it never said hello".to_owned()))?;
        check_system(job, &hello)?;
        Ok(Ok(Ran {
            hello,
            counted,
            races,
        }))
    }

    fn keep_trace(self, job: &Job, bytes: &[u8]) -> Result<(), Error> {
        let Some(folder) = &self.all.bench.keep_logs else {
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
        return Err(malformed(
            job,
            format!("it is not the system that was ordered: {hello:?}"),
        ));
    }
    Ok(())
}

fn malformed(job: &Job, problem: String) -> LabError {
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

fn gather(jobs: &[Job], made: Vec<Made>, materials: &Materials) -> Result<Collected, LabError> {
    let mut findings = Findings {
        no_probe: materials.probe.as_ref().err().cloned(),
        ..Findings::default()
    };
    let (mut hello, mut hello_of_pv32) = (None, None);
    for (job, made) in jobs.iter().zip(made) {
        let ran = match made {
            Ok(ran) => ran,
            Err(reason) => {
                findings.no_pv32 = Some(reason);
                continue;
            }
        };
        match job.kind {
            Kind::Dom0 => {
                hello.get_or_insert(ran.hello);
                findings.dom0.push(ran.counted);
            }
            Kind::Native => findings.native.push(ran.counted),
            Kind::Pv32 => {
                hello_of_pv32.get_or_insert(ran.hello);
                findings.pv32.push(ran.counted);
            }
            Kind::Race => findings.races.extend(ran.races),
        }
    }
    let hello = hello.ok_or(Error::Stopped)?;
    Ok(Collected {
        hello,
        hello_of_pv32,
        findings,
    })
}
