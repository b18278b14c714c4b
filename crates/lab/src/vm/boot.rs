//! One boot: a machine is started, its results are collected, and nothing of it is left.
//!
//! The guest stops its machine when it is ready. What it has to do is delivered then, and the machine goes on: a guest
//! that was booted and one that was restored from a snapshot have the same past.
//!
//! The boot owns a folder with everything that QEMU reads and writes. When the guest fails, the console is kept in the
//! cache's `logs` folder, one per kind of boot, and the error names it.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::conduct::{Conduct, Start};
use crate::error::LabError;
use crate::files::Furnished;
use crate::vm::confine::Confinement;
use crate::vm::console::{self, Console, Event};
use crate::vm::control::{Control, Failure};
use crate::vm::counter::{self, Counter, Executed};
use crate::vm::delivery::Delivery;
use crate::vm::folder::{Folder, beginning_of};
use crate::vm::kept::{Found, Kept};
use crate::vm::machine::{self, Machine, Mode};
use crate::vm::snapshot::{self, Saved, Snapshot};
use crate::vm::watchdog::{TimedOut, Watchdog};
use pagetoll_backend::Phase;
use pagetoll_backend::{Stop, Stopped};
use pagetoll_bill::Method;
use pagetoll_guest::report::{Blob, Report};
use pagetoll_images::Error;
use pagetoll_images::cache::{Cache, Lock, read_if_there};
use pagetoll_images::error::Outcome;
use pagetoll_images::process::Child;

/// How often the console is looked at.
const POLL: Duration = Duration::from_millis(10);
/// After which an answer is given up, as a guest's report is. Assumed: QEMU takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes per second of a state that is handed over.
const NO_LIMIT: u64 = 1 << 40;
/// How often a guest with several vCPUs is started again when QEMU fails it. Assumed: on two busy CPUs, each of three runs
/// of `fix check`, with a few such guests each, met one failure.
const MORE_ATTEMPTS: usize = 3;
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
    pub(crate) guest: &'a Furnished,
    /// What counts beside the clock.
    pub(crate) counter: Option<&'a Counter>,
    /// Its timeout is that of [`crate::vm::watchdog`].
    pub(crate) conduct: &'a Conduct,
}

/// What a boot brought.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// All reports but the last, `Done`.
    pub(crate) reports: Vec<Report>,
    /// When they were made, where that was in an earlier run.
    pub(crate) counted: Option<SystemTime>,
    shared: PathBuf,
    counts: PathBuf,
    /// Of a guest that was run now.
    _folder: Option<Folder>,
}

impl Harvest {
    fn of(reports: Vec<Report>, folder: Folder) -> Self {
        Self {
            reports,
            counted: None,
            shared: folder.path(machine::SHARED),
            counts: folder.path(machine::COUNTS),
            _folder: Some(folder),
        }
    }

    /// The bytes that a blob announced, checked.
    ///
    /// # Errors
    /// [`Error::Io`] when the shared memory cannot be read, or does not hold what was announced.
    pub(crate) fn blob(&self, blob: &Blob) -> Result<Vec<u8>, LabError> {
        let bytes = beginning_of(&self.shared, blob.bytes)?;
        let other = |problem| Error::io("read", &self.shared)(std::io::Error::other(problem));
        blob.check(&bytes).map_err(other)?;
        Ok(bytes)
    }

    /// The bytes of each blob by its name: what is announced holds those before it.
    ///
    /// # Errors
    /// Those of [`blob`](Self::blob).
    pub(crate) fn blobs(&self) -> Result<Vec<(&str, Vec<u8>)>, LabError> {
        let mut known = 0;
        let mut blobs = Vec::new();
        for blob in self.reports.iter().filter_map(Report::blob) {
            let bytes = self.blob(blob)?;
            let new = bytes.get(known..).unwrap_or_default().to_vec();
            known = bytes.len();
            blobs.push((blob.name.as_str(), new));
        }
        Ok(blobs)
    }

    /// What the counter counted, by step; nothing when there was none. The inner error says what is wrong with it.
    ///
    /// # Errors
    /// [`Error::Io`] when its file cannot be read.
    pub(crate) fn executed(&self) -> Result<Result<BTreeMap<u16, Executed>, String>, LabError> {
        let text = read_if_there(&self.counts)?.unwrap_or_default();
        Ok(counter::parse(&String::from_utf8_lossy(&text)))
    }
}

impl From<Found> for Harvest {
    fn from(found: Found) -> Self {
        Self {
            reports: found.reports,
            counted: Some(found.counted),
            shared: found.shared,
            counts: found.counts,
            _folder: None,
        }
    }
}

/// Boots, waits until the guest is done, and ends it; or finds what the same guest has counted before.
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
    let key = snapshot::key(boot, stop)?;
    let kept = Kept::of(boot, &key, cache)?;
    let found = kept.as_ref().map(|kept| kept.found(boot.conduct.counts));
    if let Some(found) = found.transpose()?.flatten() {
        return Ok(found.into());
    }
    let snapshot = boot.is_restorable().then(|| Snapshot::at(&key, cache));
    let mut attempt = || attempt(boot, kept.as_ref(), snapshot.as_ref(), cache, stop, phase);
    let mut more = match boot.machine.mode {
        Mode::Counting => 0,
        Mode::Race { .. } => MORE_ATTEMPTS,
    };
    loop {
        match attempt() {
            Err(error) if more > 0 && is_qemus_fault(&error) => {
                tracing::warn!(
                    "the boot {} is started again, since QEMU failed: {error}",
                    boot.name
                );
                more -= 1;
            }
            result => return result,
        }
    }
}

/// Whether QEMU is to blame. With a thread for each vCPU, 7.2 crashes about once in 150 boots: in
/// `memory_region_dispatch_write()`, while dom0 sets up its devices, which neither guest nor figures have a part in.
/// And it may execute a breakpoint that a kernel wrote while it switched a static key, and that is gone: seen on a busy
/// host, with the new instruction in memory. QEMU 7.2 translates code while another vCPU writes it, and a write whose
/// look-up in the TLB came before can escape its notice. It happens before the first process as well.
fn is_qemus_fault(error: &LabError) -> bool {
    match error {
        LabError::Images(Error::Process(ended)) => {
            matches!(ended.outcome, Outcome::Signalled(signal) if signal == Signal::SEGV.as_raw())
        }
        LabError::Guest { problem, .. } => problem.contains(console::STALE_BREAKPOINT),
        _ => false,
    }
}

/// Boots or restores it once.
fn attempt(
    boot: Boot<'_>,
    kept: Option<&Kept<'_>>,
    snapshot: Option<&Snapshot<'_>>,
    cache: &Cache,
    stop: &Stop,
    phase: &mut dyn Phase,
) -> Result<Harvest, LabError> {
    let (saved, making) = match snapshot {
        Some(snapshot) => snapshot.saved_or_making(stop)?,
        None => (None, None),
    };
    let confinement = Confinement::here(boot.machine.firmware.arch(), stop)?;
    let user = confinement.user(stop)?;
    let console = saved.as_ref().map(Saved::console);
    let folder = Folder::furnished(boot, console, cache.scratch(), user)?;
    let mut command = boot.machine.command();
    if let Some(counter) = boot.counter {
        command = command.args(counter.arguments());
    }
    if saved.is_some() {
        command = command.args(["-incoming", "defer"]);
    }
    let command = confinement.around(command, user, boot.machine.memory_mib());
    let (control, theirs) = Control::pair()?;
    let child = command.current_dir(folder.place()).start_with(theirs)?;
    let mut running = Running {
        boot,
        folder: &folder,
        child,
        control,
        stop,
        making,
        lines: Vec::new(),
    };
    let collected = running.collect(saved.as_ref(), snapshot, phase);
    running.child.kill();
    if let Some(place) = boot.conduct.logs() {
        folder.keep_console(place, boot.name)?;
    }
    match collected {
        Ok(reports) => {
            kept.map_or(Ok(()), |kept| kept.keep(&running.lines, &reports, &folder))?;
            Ok(Harvest::of(reports, folder))
        }
        Err(Ending::Guest(problem)) => Err(LabError::Guest {
            boot: boot.name.to_owned(),
            problem,
            log: folder.keep_console(&cache.path("logs"), boot.name)?,
        }),
        Err(Ending::Lab(error)) => Err(error),
    }
}

impl Boot<'_> {
    /// Whether a snapshot may take its place: it stops when it is ready, and nothing else was ordered.
    fn is_restorable(self) -> bool {
        self.guest.delivery.is_some() && self.conduct.start != Start::Cold
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

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(why) => Self::Guest(format!("QEMU refused a command: {why}")),
            Failure::Broken(error) => Self::Lab(error.into()),
        }
    }
}

impl From<LabError> for Ending {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

/// How a state was moved, at both ends of its socket. When one fails, so does the other.
struct Moved {
    here: Result<(), Error>,
    by_qemu: Result<(), Ending>,
}

/// A machine at work.
struct Running<'a> {
    boot: Boot<'a>,
    folder: &'a Folder,
    child: Child,
    control: Control,
    stop: &'a Stop,
    /// Held until the snapshot is there, or cannot be made.
    making: Option<Lock>,
    /// All that was reported but the last, as it was written.
    lines: Vec<String>,
}

impl Running<'_> {
    /// Follows the console until the guest is done.
    fn collect(
        &mut self,
        saved: Option<&Saved>,
        snapshot: Option<&Snapshot<'_>>,
        phase: &mut dyn Phase,
    ) -> Result<Vec<Report>, Ending> {
        let mut console = Console::new(self.folder.path(machine::CONSOLE));
        let mut reports = Vec::new();
        let mut watchdog = Watchdog::new(self.boot.conduct.timeout, self.boot.machine.mode.cpus());
        let mut awaited = self.boot.guest.delivery.as_ref();
        if let Some((saved, delivery)) = saved.zip(awaited) {
            self.restore(saved)?;
            tracing::debug!(boot = self.boot.name, "restored from a snapshot");
            self.go_on(delivery)?;
            awaited = None;
        }
        loop {
            self.stop.check()?;
            let ended = self.child.try_wait()?;
            for event in console.poll()? {
                watchdog.progress();
                let (report, line) = understood(event, self.stop)?;
                if let Report::Done = report {
                    return Ok(reports);
                }
                phase.step(&next_after(&report));
                reports.push(report);
                self.lines.push(line);
            }
            if console.has_more() {
                continue;
            }
            if let Some(status) = ended {
                return Err(early_end(&self.child, status, reports.len()));
            }
            if watchdog.is_due(Instant::now()) {
                watchdog.look(Instant::now(), self.child.activity())?;
            }
            if self.control.has_stopped()? {
                let delivery = awaited.take().ok_or_else(stopped_twice)?;
                snapshot.map_or(Ok(()), |snapshot| self.save(snapshot))?;
                self.making = None;
                self.go_on(delivery)?;
                watchdog.progress();
            }
        }
    }

    /// Hands over what the guest waits for, and lets it run.
    fn go_on(&mut self, delivery: &Delivery) -> Result<(), Ending> {
        self.folder.write(machine::SHARED, &delivery.bytes())?;
        self.ask("cont", json!({})).map(drop)
    }

    /// Keeps the machine, which stands still, as a snapshot.
    fn save(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Ending> {
        let draft = snapshot.draft()?;
        let moved = self.move_state(|ours| draft.write(ours), Self::hand_over)?;
        // A full disk ends both.
        moved.here?;
        moved.by_qemu?;
        snapshot.publish(&draft, &self.folder.path(machine::CONSOLE))?;
        Ok(())
    }

    fn hand_over(&mut self, theirs: UnixStream) -> Result<(), Ending> {
        self.ask(
            "migrate-set-parameters",
            json!({ "max-bandwidth": NO_LIMIT }),
        )?;
        self.give(theirs)?;
        self.ask("migrate", json!({ "uri": Control::STATE_URI }))?;
        self.until("migrate", |running| {
            let migration = running.ask("query-migrate", json!({}))?;
            match migration["status"].as_str() {
                Some("completed") => Ok(Some(())),
                Some("failed" | "cancelled") => {
                    let problem = format!("QEMU did not save its state: {migration}");
                    Err(Ending::Guest(problem))
                }
                _ => Ok(pause()),
            }
        })
    }

    /// Makes the machine what it was when the snapshot was saved.
    fn restore(&mut self, saved: &Saved) -> Result<(), Ending> {
        self.until("its control socket", |running| {
            running.control.has_stopped()?;
            Ok(running.control.is_ready().then_some(()))
        })?;
        let moved = self.move_state(|ours| saved.read(ours), Self::take_over)?;
        moved.by_qemu?;
        Ok(moved.here?)
    }

    /// Moves the machine's state through a socket, of which `here` has one end, in a thread of its own, and QEMU the other.
    fn move_state(
        &mut self,
        here: impl FnOnce(UnixStream) -> Result<(), Error> + Send,
        by_qemu: impl FnOnce(&mut Self, UnixStream) -> Result<(), Ending>,
    ) -> Result<Moved, Error> {
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(Error::io("make", "a socket for a machine's state"))?;
        Ok(thread::scope(|scope| {
            let here = scope.spawn(|| here(ours));
            let by_qemu = by_qemu(self, theirs);
            if by_qemu.is_err() {
                self.child.kill();
            }
            Moved {
                here: joined(here),
                by_qemu,
            }
        }))
    }

    fn take_over(&mut self, theirs: UnixStream) -> Result<(), Ending> {
        self.give(theirs)?;
        self.ask("migrate-incoming", json!({ "uri": Control::STATE_URI }))?;
        self.until("migrate-incoming", |running| {
            let status = running.ask("query-status", json!({}))?;
            match status["status"] == "inmigrate" {
                true => Ok(pause()),
                false => Ok(Some(())),
            }
        })
    }

    /// The other end of a socket for the machine's state.
    fn give(&mut self, theirs: UnixStream) -> Result<(), Ending> {
        self.control.send_state(theirs.as_fd())?;
        self.answer("getfd").map(drop)
    }

    fn ask(&mut self, command: &'static str, arguments: Value) -> Result<Value, Ending> {
        self.control.send(command, arguments)?;
        self.answer(command)
    }

    fn answer(&mut self, command: &'static str) -> Result<Value, Ending> {
        self.until(command, |running| Ok(running.control.answer()?))
    }

    /// Looks until there is something, pagetoll is to stop, or QEMU has ended or makes no progress.
    fn until<T>(
        &mut self,
        what: &'static str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Ending>,
    ) -> Result<T, Ending> {
        let mut watchdog = Watchdog::new(ANSWER_TIMEOUT, 1);
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            self.stop.check()?;
            if let Some(status) = self.child.try_wait()? {
                return Err(early_end(&self.child, status, 0));
            }
            if watchdog.is_due(Instant::now()) {
                let looked = watchdog.look(Instant::now(), self.child.activity());
                looked.map_err(|timed_out| {
                    Ending::Guest(format!("QEMU did not answer {what}: {timed_out}"))
                })?;
            }
        }
    }
}

/// Nothing yet.
fn pause() -> Option<()> {
    thread::sleep(POLL);
    None
}

/// A panic of the other thread goes on in this one.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| panic::resume_unwind(panic))
}

fn stopped_twice() -> Ending {
    Ending::Guest("it stopped its machine a second time".to_owned())
}

/// A report, and as it was written.
fn understood(event: Event, stop: &Stop) -> Result<(Report, String), Ending> {
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
            Ok(report) => Ok((report, json)),
            Err(error) => Err(Ending::Guest(format!("malformed result: {error}: {json}"))),
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
        Report::KvmCase(case) => format!("case {}", case.index),
        Report::KvmCaseSkipped(case) => format!("case {}", case.index),
        Report::Pin(pin) => pin.shape.to_string(),
        Report::PinTraced(traced) => format!("trace {}", traced.shape),
        Report::PinUnavailable(shape) => shape.shape.to_string(),
        Report::PinCase(case) => format!("case {}", case.index),
        Report::Tried(tried) => format!("exit code {}", tried.code),
        Report::Changed(changed) => changed.setting.clone(),
        Report::Blob(blob) => blob.name.clone(),
        Report::Trace(_)
        | Report::Parameter(_)
        | Report::Lock(_)
        | Report::LockUnavailable
        | Report::Contended(_)
        | Report::Error(_)
        | Report::Done => String::new(),
    }
}
