//! Runs the boots of an order, side by side, and gathers what they report.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::thread;

use pagetoll_traces::xentrace::{Crossings, Windows};

use super::plan::{self, Abilities, Privcmd};
use super::rows::{Counted, Findings};
use super::{Clock, Request, Surroundings, machines};
use crate::boot::{self, Boot, Harvest};
use crate::cores::Cores;
use crate::dom0::Part;
use crate::error::LabError;
use crate::host;
use crate::initramfs::{self, Member};
use crate::machine::{Firmware, Machine};
use crate::materials::Materials;
use crate::report::{Hello, Report};
use crate::stop::Stop;

/// What all boots brought.
pub(super) struct Collected {
    /// The first dom0's greeting: what was run.
    pub(super) hello: Hello,
    pub(super) findings: Findings,
}

/// One boot that is to be made.
struct Job {
    name: String,
    kind: Kind,
    machine: Machine,
    steps: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dom0,
    Native,
    Race,
}

/// Makes all boots; the first error ends the others.
///
/// # Errors
/// Whatever a boot says first.
pub(super) fn collect(
    request: &Request,
    materials: &Materials,
    surroundings: Surroundings<'_>,
    clock: &Clock,
) -> Result<Collected, LabError> {
    let jobs = jobs(request, materials);
    let cores = Cores::new(host::cpus());
    // A failed boot ends the others, without pretending that the user asked for it.
    let others = Stop::new();
    let first_error = Mutex::new(None);
    let results: Vec<_> = thread::scope(|scope| {
        let spawn = |job| {
            let work = Work {
                request,
                materials,
                surroundings,
                clock,
                cores: &cores,
                stop: &others,
            };
            let first_error = &first_error;
            scope.spawn(move || {
                work.make(job)
                    .map_err(|error| remember(first_error, error, work.stop))
            })
        };
        let forward = scope.spawn(|| forward_stop(surroundings.stop, &others));
        let threads: Vec<_> = jobs.iter().map(spawn).collect();
        let results = threads
            .into_iter()
            .map(|thread| join(thread.join()))
            .collect();
        others.request();
        join(forward.join());
        results
    });
    surroundings.stop.check()?;
    if let Some(error) = first_error
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        return Err(error);
    }
    let made = results.into_iter().filter_map(Result::ok);
    gather(jobs.iter().map(|job| job.kind).zip(made), materials)
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

fn jobs(request: &Request, materials: &Materials) -> Vec<Job> {
    let order = &request.order;
    let [counting, native, race] = machines(order);
    let mut jobs = Vec::new();
    for run in 1..=order.runs {
        let name = |kind: &str| {
            if order.runs == 1 {
                kind.to_owned()
            } else {
                format!("{kind}-{run}")
            }
        };
        let dom0 = plan::counting(order, abilities(materials));
        jobs.push(Job {
            name: name("dom0"),
            kind: Kind::Dom0,
            machine: counting,
            steps: dom0,
        });
        let steps = plan::native(order);
        jobs.push(Job {
            name: name("native"),
            kind: Kind::Native,
            machine: native,
            steps,
        });
    }
    if materials.probe.is_ok() {
        let steps = plan::race(order);
        jobs.push(Job {
            name: "race".to_owned(),
            kind: Kind::Race,
            machine: race,
            steps,
        });
    }
    jobs
}

fn abilities(materials: &Materials) -> Abilities {
    Abilities {
        probe: materials.probe.is_ok(),
        privcmd: match materials.privcmd {
            Part::BuiltIn => Privcmd::BuiltIn,
            Part::Module(_) => Privcmd::Module,
            Part::Missing(_) => Privcmd::None,
        },
    }
}

/// All that a boot's thread needs.
#[derive(Clone, Copy)]
struct Work<'a> {
    request: &'a Request,
    materials: &'a Materials,
    surroundings: Surroundings<'a>,
    clock: &'a Clock,
    cores: &'a Cores,
    stop: &'a Stop,
}

impl Work<'_> {
    fn make(self, job: &Job) -> Result<(Hello, Counted, Vec<Report>), LabError> {
        let initramfs = self.initramfs(job)?;
        let _cores = self.cores.take(job.machine.mode.cpus(), self.stop)?;
        let steps = u64::try_from(job.steps.len()).unwrap_or(u64::MAX);
        let mut phase = self.surroundings.progress.begin(&job.name, steps);
        let of_xen = job.machine.firmware == Firmware::Xen;
        let boot = Boot {
            name: &job.name,
            machine: job.machine,
            xen: of_xen.then_some(self.materials.xen.elf.as_path()),
            linux: if of_xen {
                &self.materials.vmlinux
            } else {
                &self.materials.kernel.image
            },
            initramfs: &initramfs,
            silence: self.request.silence,
            keep_logs: self.request.keep_logs.as_deref(),
        };
        let cache = self.surroundings.cache;
        let work = || boot::run(boot, cache, self.stop, phase.as_mut());
        let harvest = self.clock.time(&format!("boot {}", job.name), work)?;
        self.understand(job, &harvest)
    }

    fn initramfs(self, job: &Job) -> Result<Vec<u8>, LabError> {
        let read = |path: &std::path::Path| fs::read(path).map_err(LabError::io("read", path));
        let init = read(&self.materials.init)?;
        let probe = self.materials.probe.as_deref().ok().map(read).transpose()?;
        let order = job
            .steps
            .iter()
            .map(|step| format!("{step}\n"))
            .collect::<String>();
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
            if let Part::Module(bytes) = &self.materials.privcmd {
                members.push(module(plan::PRIVCMD_MODULE, bytes));
            }
        }
        let place = self.surroundings.cache.root();
        initramfs::assemble(&members).map_err(LabError::io("assemble an initramfs in", place))
    }

    fn understand(
        self,
        job: &Job,
        harvest: &Harvest,
    ) -> Result<(Hello, Counted, Vec<Report>), LabError> {
        let mut counted = Counted::default();
        let mut hello = None;
        let mut rest = Vec::new();
        for report in &harvest.reports {
            match report {
                Report::Hello(greeting) => hello = Some(greeting.clone()),
                Report::Clear(clear) => counted.clears.push(clear.clone()),
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
        Ok((hello, counted, rest))
    }

    fn keep_trace(self, job: &Job, bytes: &[u8]) -> Result<(), LabError> {
        let Some(folder) = &self.request.keep_logs else {
            return Ok(());
        };
        let path = folder.join(format!("{}.xentrace", job.name));
        fs::write(&path, bytes).map_err(LabError::io("write", &path))
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
    LabError::Senseless {
        boot: job.name.clone(),
        problem,
    }
}

fn gather(
    made: impl Iterator<Item = (Kind, (Hello, Counted, Vec<Report>))>,
    materials: &Materials,
) -> Result<Collected, LabError> {
    let mut findings = Findings {
        no_probe: materials.probe.as_ref().err().cloned(),
        ..Findings::default()
    };
    let mut hello = None;
    for (kind, (greeting, counted, rest)) in made {
        match kind {
            Kind::Dom0 => {
                hello.get_or_insert(greeting);
                findings.dom0.push(counted);
            }
            Kind::Native => findings.native.push(counted),
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
    let hello = hello.ok_or(LabError::Stopped)?;
    Ok(Collected { hello, findings })
}
