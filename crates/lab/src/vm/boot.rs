//! One boot: a machine is started, its results are collected, and nothing of it is left.
//!
//! The boot owns a folder with everything that QEMU reads and writes. When the guest fails, the console is kept in the
//! cache's `logs` folder, one per kind of boot, and the error names it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::vm::confine::Confinement;
use crate::vm::console::{self, Console, Event};
use crate::vm::counter;
use crate::vm::folder::Folder;
use crate::vm::machine::{self, Machine};
use crate::vm::watchdog::{TimedOut, Watchdog};
use pagetoll_backend::Phase;
use pagetoll_backend::{Stop, Stopped};
use pagetoll_bill::Method;
use pagetoll_guest::pv::findings::Flushes;
use pagetoll_guest::report::{Blob, Report};
use pagetoll_images::Error;
use pagetoll_images::cache::{Cache, read_if_there};
use pagetoll_images::process::Child;

/// How often the console is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long a system that gave up may still talk, so that the log holds all of its last words.
const AFTERMATH: Duration = Duration::from_secs(2);

/// What is booted, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot<'a> {
    /// The name of this boot, for progress and logs.
    pub(crate) name: &'a str,
    pub(crate) machine: Machine,
    /// The hypervisor, for [`machine::Firmware::Xen`].
    pub(crate) xen: Option<&'a Path>,
    pub(crate) linux: &'a Path,
    pub(crate) initramfs: &'a [u8],
    /// The plugin that counts flushes; see [`crate::vm::counter`].
    pub(crate) counter: Option<&'a Path>,
    /// The guest is given up after this much CPU time of its QEMU without a report; see [`crate::vm::watchdog`].
    pub(crate) timeout: Duration,
    /// Where console and trace are kept even when all goes well.
    pub(crate) keep_logs: Option<&'a Path>,
}

/// What a boot brought.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// All reports but the last, `Done`.
    pub(crate) reports: Vec<Report>,
    folder: Folder,
}

impl Harvest {
    /// The bytes that a blob announced, checked.
    ///
    /// # Errors
    /// [`Error::Io`] when the shared memory cannot be read, or does not hold what was announced.
    pub(crate) fn blob(&self, blob: &Blob) -> Result<Vec<u8>, LabError> {
        let path = self.folder.path(machine::SHARED);
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(blob.bytes).read_to_end(&mut bytes))
            .map_err(Error::io("read", &path))?;
        let other = |problem| Error::io("read", &path)(std::io::Error::other(problem));
        blob.check(&bytes).map_err(other)?;
        Ok(bytes)
    }

    /// What the counter counted, by step; nothing when there was none. The inner error says what is wrong with it.
    ///
    /// # Errors
    /// [`Error::Io`] when its file cannot be read.
    pub(crate) fn flushes(&self) -> Result<Result<BTreeMap<u16, Flushes>, String>, LabError> {
        let path = self.folder.path(machine::FLUSHES);
        let text = read_if_there(&path)?.unwrap_or_default();
        Ok(counter::parse(&String::from_utf8_lossy(&text)))
    }
}

/// Boots, waits until the guest is done, and ends it.
///
/// # Errors
/// [`LabError::Guest`] when the guest fails, hangs or ends early; [`Error::Process`] when QEMU does;
/// [`LabError::Stopped`]. QEMU is gone in every case.
pub(crate) fn run(
    boot: Boot<'_>,
    cache: &Cache,
    stop: &Stop,
    phase: &mut dyn Phase,
) -> Result<Harvest, LabError> {
    let confinement = Confinement::here(stop)?;
    let user = confinement.user(stop)?;
    let folder = Folder::furnished(boot, cache.scratch(), user)?;
    let mut command = boot.machine.command();
    if boot.counter.is_some() {
        command = command.args(counter::arguments());
    }
    let command = confinement.around(command, user, boot.machine.memory_mib());
    let mut child = command.current_dir(folder.place()).start()?;
    let collected = collect(boot, &folder, &mut child, stop, phase);
    child.kill();
    if let Some(place) = boot.keep_logs {
        folder.keep_console(place, boot.name)?;
    }
    match collected {
        Ok(reports) => Ok(Harvest { reports, folder }),
        Err(Ending::Guest(problem)) => Err(LabError::Guest {
            boot: boot.name.to_owned(),
            problem,
            log: folder.keep_console(&cache.path("logs"), boot.name)?,
        }),
        Err(Ending::Lab(error)) => Err(error),
    }
}

/// Why a guest's results are not there.
enum Ending {
    /// The guest is to blame.
    Guest(String),
    /// The lab or its surroundings are.
    Lab(LabError),
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        Self::Lab(error.into())
    }
}

impl From<TimedOut> for Ending {
    fn from(timed_out: TimedOut) -> Self {
        Self::Guest(timed_out.to_string())
    }
}

impl From<Stopped> for Ending {
    fn from(stopped: Stopped) -> Self {
        Self::Lab(stopped.into())
    }
}

impl From<LabError> for Ending {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

/// Follows the console until the guest is done.
fn collect(
    boot: Boot<'_>,
    folder: &Folder,
    child: &mut Child,
    stop: &Stop,
    phase: &mut dyn Phase,
) -> Result<Vec<Report>, Ending> {
    let mut console = Console::new(folder.path(machine::CONSOLE));
    let mut reports = Vec::new();
    let mut watchdog = Watchdog::new(boot.timeout, boot.machine.mode.cpus());
    loop {
        stop.check()?;
        let ended = child.try_wait()?;
        for event in console.poll()? {
            watchdog.progress();
            match understood(event, stop)? {
                Report::Done => return Ok(reports),
                report => {
                    phase.step(&next_after(&report));
                    reports.push(report);
                }
            }
        }
        if console.has_more() {
            continue;
        }
        if let Some(status) = ended {
            return Err(early_end(child, status, reports.len()));
        }
        if watchdog.is_due(Instant::now()) {
            watchdog.look(Instant::now(), child.activity())?;
        }
        thread::sleep(POLL);
    }
}

fn understood(event: Event, stop: &Stop) -> Result<Report, Ending> {
    match event {
        Event::Trouble(words) => {
            let began = Instant::now();
            while began.elapsed() < AFTERMATH {
                stop.check()?;
                thread::sleep(POLL);
            }
            Err(Ending::Guest(words))
        }
        Event::Flood => Err(Ending::Guest(console::FLOODED.to_owned())),
        Event::Result(json) => match serde_json::from_str(&json) {
            Ok(Report::Error(failure)) => Err(Ending::Guest(failure.to_string())),
            Ok(report) => Ok(report),
            Err(error) => Err(Ending::Guest(format!(
                "a result that is none: {error}: {json}"
            ))),
        },
    }
}

/// QEMU that says something and fails is to blame itself; a machine that powers off early is the guest's doing.
fn early_end(child: &Child, status: std::process::ExitStatus, reports: usize) -> Ending {
    if status.success() {
        Ending::Guest(format!(
            "the machine went off after {reports} results, before the guest was done"
        ))
    } else {
        Ending::Lab(child.failure(status).into())
    }
}

pub(super) fn next_after(report: &Report) -> String {
    match report {
        Report::Hello(_) => "up".to_owned(),
        Report::Settled(_) => "settled".to_owned(),
        Report::Clear(clear) => format!("{} {}", clear.method, clear.batch),
        Report::Race(race) => format!("race {} {}", Method::from(race.mechanism), race.batch),
        Report::Repeat(repeat) => format!("{} {}", repeat.operation, repeat.mechanism),
        Report::User(user) => user.operation.to_string(),
        Report::Foreign(foreign) => format!("{} {}", foreign.operation, foreign.batch),
        Report::ForeignReleased(_) | Report::ForeignUnavailable(_) => "other domain".to_owned(),
        Report::Case(case) => format!("case {}", case.index),
        Report::Check(check) => check.name.clone(),
        Report::KernelLog(_) => "kernel log".to_owned(),
        Report::Demand(demand) => Method::from(demand.mechanism).to_string(),
        Report::DemandParts(_) => "parts".to_owned(),
        Report::DemandUnavailable(one) => Method::from(one.mechanism).to_string(),
        Report::Pin(pin) => pin.shape.to_string(),
        Report::PinTraced(traced) => format!("trace {}", traced.shape),
        Report::PinUnavailable(shape) => shape.shape.to_string(),
        Report::PinCase(case) => format!("case {}", case.index),
        Report::Tried(tried) => format!("exit code {}", tried.code),
        Report::Changed(changed) => changed.setting.clone(),
        Report::Blob(blob) => blob.name.clone(),
        Report::Error(_) | Report::Done => String::new(),
    }
}
