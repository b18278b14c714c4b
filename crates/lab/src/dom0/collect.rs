//! Runs the boots of an order, side by side, and gathers what they report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pagetoll_bill::Order;
use pagetoll_traces::xentrace::{Crossings, Windows};

use crate::clock::Clock;
use crate::dom0::materials::Materials;
use crate::error::LabError;
use crate::files::{Files, Furnished};
use crate::profile::{KALLSYMS, Names, Profiled, symbols_of};
use crate::request::{Bench, pages_mib};
use crate::vm::boot::{self, Boot, Harvest};
use crate::vm::cores::Cores;
use crate::vm::counter::{Counter, Detail, Executed};
use crate::vm::machine::{Firmware, Machine, Mode};
use crate::vm::side_by_side::side_by_side;
use pagetoll_backend::Stop;
use pagetoll_guest::pv::findings::{Findings, Ran};
use pagetoll_guest::pv::session::{Kind, Session};
use pagetoll_guest::pv::{plan, pv32};
use pagetoll_guest::report::Hello;
use pagetoll_guest::step::{self, Step};
use pagetoll_images::Error;
use pagetoll_images::Surroundings;
use pagetoll_images::host;
use pagetoll_images::kernel::dom0::Part;
use pagetoll_traces::symbols::Symbols;

/// What all boots brought.
pub(crate) struct Collected {
    /// The first dom0's greeting: what was run.
    pub(crate) hello: Hello,
    /// A 32-bit dom0's, where there was one.
    pub(crate) hello_of_pv32: Option<Hello>,
    pub(crate) findings: Findings,
    /// Of sessions whose code was counted.
    pub(crate) profiled: Vec<Profiled>,
}

/// One boot, before it is made.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    session: Session,
    purpose: Purpose,
    pub(crate) machine: Machine,
}

/// What a boot is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// What the session counts.
    Counts,
    /// The names of its kernel's functions: asked by itself, so that nothing is counted that is not without a profile.
    Symbols,
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

impl Job {
    /// The boot that a session takes.
    pub(crate) fn new(session: Session, order: &Order) -> Self {
        let machine = Machine {
            mode: mode(session.kind),
            firmware: firmware(session.kind),
            pages_mib: pages_mib(order.pages),
            xen: session.xen,
        };
        Self {
            session,
            purpose: Purpose::Counts,
            machine,
        }
    }

    /// One boot more of each guest among these, which says what its kernel's functions are called.
    pub(crate) fn of_symbols(jobs: &[Self]) -> Vec<Self> {
        let is_first = |(index, job): &(usize, &Self)| {
            let mut before = jobs[..*index].iter();
            !before.any(|other| job.has_guest_of(other))
        };
        let guests = jobs.iter().enumerate().filter(is_first);
        guests.filter_map(|(_, job)| job.saying_symbols()).collect()
    }

    fn saying_symbols(&self) -> Option<Self> {
        let (preparation, _) = step::divided(&self.session.steps);
        let publish = Step::Publish(KALLSYMS.to_owned());
        let session = Session {
            name: format!("symbols-{}", self.session.name),
            steps: preparation.iter().cloned().chain([publish]).collect(),
            ..self.session.clone()
        };
        counts_code(self.session.kind).then(|| Self {
            session,
            purpose: Purpose::Symbols,
            ..self.clone()
        })
    }

    /// Whether both are of the same guest.
    fn has_guest_of(&self, other: &Self) -> bool {
        let guest = |job: &Self| (job.session.kind, job.session.xen);
        guest(self) == guest(other)
    }
}

/// Whether it has one vCPU, as the counter expects, and 64-bit code, which it reads.
const fn counts_code(kind: Kind) -> bool {
    match kind {
        Kind::Dom0 | Kind::Foreign | Kind::Native => true,
        Kind::Pv32 | Kind::Race => false,
    }
}

const fn mode(kind: Kind) -> Mode {
    match kind {
        Kind::Dom0 | Kind::Foreign | Kind::Native | Kind::Pv32 => Mode::Counting,
        Kind::Race => Mode::PAIR,
    }
}

const fn firmware(kind: Kind) -> Firmware {
    match kind {
        Kind::Dom0 | Kind::Foreign | Kind::Race | Kind::Pv32 => Firmware::Xen,
        Kind::Native => Firmware::Linux,
    }
}

/// The hypervisor, where there is one, and what it starts; or why this cannot be booted.
fn images(kind: Kind, materials: &Materials) -> Result<(Option<&Path>, &Path), String> {
    let xen = &materials.xen;
    let (xen, kernel) = match (kind, &materials.pv32) {
        (Kind::Native, _) => return Ok((None, &materials.kernel.image)),
        (Kind::Pv32, Some(pv32)) => (pv32.xen.as_ref().map_err(Clone::clone)?, &pv32.kernel),
        (_, _) => (xen, &materials.vmlinux),
    };
    Ok((Some(&xen.elf), kernel))
}

/// What a boot brought.
struct Brought {
    ran: Ran,
    executed: BTreeMap<u16, Executed>,
    kallsyms: Option<String>,
}

/// What a boot brought, or why there is no such guest.
type Made = Result<Brought, String>;

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
        let (xen, linux) = match images(job.session.kind, materials) {
            Ok(images) => images,
            Err(reason) => return Ok(Err(reason)),
        };
        let guest = self.furnished(job)?;
        let _cores = self.cores.take(job.machine.mode.cpus(), self.stop)?;
        let steps = u64::try_from(job.session.steps.len()).unwrap_or(u64::MAX);
        let mut phase = surroundings.progress.begin(&job.session.name, steps);
        let conduct = match job.purpose {
            Purpose::Counts => bench.conduct.clone(),
            Purpose::Symbols => bench.conduct.of_names(),
        };
        let boot = Boot {
            name: &job.session.name,
            machine: job.machine,
            xen,
            linux,
            guest: &guest,
            counter: self.counter(job),
            conduct: &conduct,
        };
        let work = || boot::run(boot, surroundings.cache, self.stop, phase.as_mut());
        match clock.time(&format!("boot {}", job.session.name), work) {
            Err(error) => refused(job, error),
            Ok(harvest) => self.understand(job, &harvest),
        }
    }

    fn furnished(self, job: &Job) -> Result<Furnished, Error> {
        // A 32-bit guest has no file system: its second module is its order.
        if job.session.kind == Kind::Pv32 {
            return Ok(Furnished {
                initramfs: step::order(&job.session.steps).into_bytes(),
                delivery: None,
            });
        }
        let materials = self.all.materials;
        let mut files = Files::of(job.machine.firmware);
        files.program("init", &materials.init)?;
        files.steps(&job.session.steps);
        if job.machine.firmware == Firmware::Xen {
            if let Ok(probe) = &materials.probe {
                let bytes = fs::read(probe).map_err(Error::io("read", probe))?;
                files.file(plan::PROBE_MODULE, bytes);
            }
            if let Part::Module(bytes) = &materials.privcmd {
                files.file(plan::PRIVCMD_MODULE, bytes.as_slice());
            }
        }
        files.furnished()
    }

    fn counter<'b>(&'b self, job: &Job) -> Option<&'b Counter> {
        let counter = self.all.materials.counter.as_ref().ok();
        counter.filter(|counter| match counter.detail {
            Detail::Flushes => true,
            Detail::Stacks => counts_code(job.session.kind) && job.purpose == Purpose::Counts,
        })
    }

    fn understand(self, job: &Job, harvest: &Harvest) -> Result<Made, LabError> {
        if job.purpose == Purpose::Counts {
            self.all.clock.counted_before(harvest.counted);
        }
        let executed = harvest.executed()?;
        let never = || malformed(job, "it never said hello".to_owned());
        let mut ran = Ran::of(&harvest.reports).ok_or_else(never)?;
        ran.counted.xen = job.session.xen;
        let executed = executed.map_err(|problem| malformed(job, problem))?;
        let flushes = executed.iter().map(|(&step, all)| (step, all.flushes));
        ran.counted.flushes = flushes.collect();
        let mut kallsyms = None;
        for (name, bytes) in harvest.blobs()? {
            if name == KALLSYMS {
                kallsyms = Some(String::from_utf8_lossy(&bytes).into_owned());
                continue;
            }
            self.keep_trace(job, &bytes)?;
            ran.counted.crossings = crossings(&bytes).map_err(|problem| malformed(job, problem))?;
        }
        check_system(job, &ran.hello)?;
        Ok(Ok(Brought {
            ran,
            executed,
            kallsyms,
        }))
    }

    fn keep_trace(self, job: &Job, bytes: &[u8]) -> Result<(), Error> {
        let Some(folder) = self.all.bench.conduct.logs() else {
            return Ok(());
        };
        let path = folder.join(format!("{}.xentrace", job.session.name));
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
        boot: job.session.name.clone(),
        problem,
    }
}

/// A Xen that starts no 32-bit guest is an answer; whatever else went wrong is an error.
fn refused(job: &Job, error: LabError) -> Result<Made, LabError> {
    match &error {
        LabError::Guest { problem, .. } if job.session.kind == Kind::Pv32 => {
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
    let (mut hello, mut hello_of_pv32, mut hello_of_native) = (None, None, None);
    let mut executed: Vec<(&Job, _)> = Vec::new();
    let mut profiled = Vec::new();
    for (job, made) in jobs.iter().zip(made) {
        let brought = match made {
            Ok(brought) => brought,
            Err(reason) => {
                findings.no_pv32 = Some(reason);
                continue;
            }
        };
        // Symbols come after all that was counted.
        if let Some(kallsyms) = brought.kallsyms {
            let of_guest = executed
                .iter()
                .position(|(other, _)| job.has_guest_of(other));
            if let Some(index) = of_guest {
                let (other, executed) = executed.remove(index);
                profiled.push(Profiled {
                    session: other.session.clone(),
                    executed,
                    names: names(job, &kallsyms, materials)?,
                });
            }
            continue;
        }
        let ran = brought.ran;
        executed.push((job, brought.executed));
        let first = match job.session.kind {
            Kind::Dom0 => Some(&mut hello),
            Kind::Pv32 => Some(&mut hello_of_pv32),
            Kind::Native => Some(&mut hello_of_native),
            Kind::Foreign | Kind::Race => None,
        };
        if let Some(first) = first {
            first.get_or_insert_with(|| ran.hello.clone());
        }
        findings.add(job.session.kind, ran);
    }
    let hello = hello.or(hello_of_native).ok_or(Error::Stopped)?;
    Ok(Collected {
        hello,
        hello_of_pv32,
        findings,
        profiled,
    })
}

fn names(job: &Job, kallsyms: &str, materials: &Materials) -> Result<Names, Error> {
    let xen = materials.xen.symbols.as_deref();
    let xen = xen.filter(|_| job.machine.firmware == Firmware::Xen);
    Ok(Names {
        hypervisor: xen.map_or_else(|| Ok(Symbols::default()), symbols_of)?,
        kernel: Symbols::of_kallsyms(kallsyms),
        program: symbols_of(&materials.init)?,
    })
}
