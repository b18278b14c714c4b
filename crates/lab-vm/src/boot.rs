//! One boot: a machine is started, its results are collected, and nothing of it is left.
//!
//! The guest stops its machine when it is ready. What it has to do is delivered then, and the machine goes on. A boot that
//! makes a snapshot ends with it, and the guest is restored from it like all later ones, so that all have the same past:
//! a machine that goes on and one that is restored may differ by a few instructions in millions.
//!
//! The boot owns a folder with everything that QEMU reads and writes. When the guest fails, the console is kept in the
//! cache's `logs` folder, one per kind of boot, and the error names it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::{Phase, Stop, Stopped, join};
use pagetoll_bill::Method;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Lock};
use pagetoll_host::error::Outcome;
use pagetoll_host::process::Child;
use pagetoll_protocol::report::Report;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::LabError;
use crate::confine::{Confinement, Room};
use crate::console::{self, Console, Event};
use crate::control::{Control, Failure};
use crate::counter::Detail;
use crate::folder::Folder;
use crate::guest_run::GuestRun;
use crate::kept;
use crate::machine::{self, Mode};
use crate::options::{Boot, Reuse};
use crate::snapshot::{self, Snapshot, SnapshotFiles};
use crate::watchdog::{Expiry, Watchdog};

/// Interval of looks at the console.
const POLL: Duration = Duration::from_millis(10);
/// After which an answer is given up, as a guest's report is. Assumed: QEMU takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes per second of a state that is handed over.
const NO_LIMIT: u64 = 1 << 40;
/// Restarts of a guest with several vCPUs when QEMU fails it. Assumed: on two busy CPUs, each of three runs
/// of `fix check`, with a few such guests each, met one failure.
const MORE_ATTEMPTS: usize = 3;
/// Time for the last words of a system that gave up, so that the log holds them all.
const AFTERMATH: Duration = Duration::from_secs(2);

/// Boots, waits until the guest is done, and ends it; or finds what the same guest has counted before.
///
/// # Errors
/// [`LabError::Guest`] when the guest fails, hangs or ends early; [`Error::Process`] when QEMU does;
/// [`Error::Stopped`]. QEMU is gone in every case.
pub fn run(
    boot: Boot<'_>,
    cache: &Cache,
    stop: &Stop,
    phase: &mut dyn Phase,
) -> Result<GuestRun, LabError> {
    let key = snapshot::key(boot, stop)?;
    let entry = kept::entry(boot, &key)?;
    if let Some(entry) = &entry
        && let Some(run) = kept::find(boot, entry, cache)?
    {
        return Ok(run);
    }
    let snapshot = boot.is_restorable().then(|| Snapshot::at(&key, cache));
    let mut attempt = || {
        attempt(
            boot,
            entry.as_deref(),
            snapshot.as_ref(),
            cache,
            stop,
            phase,
        )
    };
    let mut more = match boot.machine.mode {
        Mode::Counting => 0,
        Mode::Race { .. } => MORE_ATTEMPTS,
    };
    loop {
        match attempt() {
            Ok(None) => {}
            Ok(Some(run)) => return Ok(run),
            Err(error) if more > 0 && is_qemus_fault(&error) => {
                tracing::warn!(
                    "the boot {} is started again, since QEMU failed: {error}",
                    boot.name
                );
                more -= 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether QEMU is to blame. With a thread for each vCPU, 7.2 crashes about once in 150 boots: in
/// `memory_region_dispatch_write()`, while dom0 sets up its devices, which neither guest nor figures have a part in.
/// And it may execute a breakpoint that a kernel wrote while it switched a static key, and that is gone: seen on a busy
/// host, with the new instruction in memory. QEMU 7.2 translates code while another vCPU writes it, and a write whose
/// look-up in the TLB came before can escape its notice. It happens before the first process as well. Where the clock
/// has such a breakpoint, the kernel dies without a word: `printk()` reads the clock, and drops what is written meanwhile.
fn is_qemus_fault(error: &LabError) -> bool {
    match error {
        LabError::Images(Error::Process(ended)) => {
            matches!(ended.outcome, Outcome::Signalled(signal) if signal == Signal::SEGV.as_raw())
        }
        LabError::Guest { problem, .. } => {
            let signs = [console::STALE_BREAKPOINT, console::DOM0_CRASHED];
            // So ends a machine without Xen whose kernel could write nothing.
            signs.iter().any(|sign| problem.contains(sign)) || *problem == went_off(0)
        }
        LabError::Images(_) | LabError::Program { .. } | LabError::Malformed { .. } => false,
    }
}

/// Boots or restores it once. `None` when all that came of it is a snapshot.
fn attempt(
    boot: Boot<'_>,
    entry: Option<&str>,
    snapshot: Option<&Snapshot<'_>>,
    cache: &Cache,
    stop: &Stop,
    phase: &mut dyn Phase,
) -> Result<Option<GuestRun>, LabError> {
    let (saved, making) = match snapshot {
        Some(snapshot) => snapshot.saved_or_making(stop)?,
        None => (None, None),
    };
    let confinement = Confinement::here(boot.machine.firmware.arch(), stop)?;
    let user = confinement.user(stop)?;
    let console = saved.as_ref().map(SnapshotFiles::console);
    let folder = Folder::furnished(boot, console, cache.scratch(), user)?;
    let mut command = boot.machine.command();
    if let Some(counter) = boot.counter {
        command = command.args(counter.arguments());
    }
    if saved.is_some() {
        command = command.args(["-incoming", "defer"]);
    }
    let command = confinement.around(command, user, boot.room());
    let (control, theirs) = Control::pair()?;
    let child = command.current_dir(folder.place()).start_with(theirs)?;
    let mut qemu = Qemu {
        boot,
        folder: &folder,
        child,
        control,
        stop,
        making,
        lines: Vec::new(),
    };
    let reports = qemu.follow(saved.as_ref(), snapshot, phase);
    qemu.child.kill();
    if let Some(place) = boot.options.logs() {
        folder.keep_console(place, boot.name)?;
    }
    match reports {
        Ok(reports) => {
            if let Some(entry) = entry {
                kept::keep(boot, entry, &qemu.lines, &reports, &folder, cache)?;
            }
            Ok(Some(GuestRun::new(boot.name, reports, folder)))
        }
        Err(Ending::Saved) => Ok(None),
        Err(Ending::Guest(problem)) => Err(LabError::Guest {
            boot: boot.name.to_owned(),
            problem,
            log: folder.keep_console(&cache.path("logs"), boot.name)?,
        }),
        Err(Ending::Lab(error)) => Err(error),
    }
}

impl Boot<'_> {
    /// The room of its QEMU: counts by stack are the largest file, else the memory that is shared.
    fn room(self) -> Room {
        let counts_stacks = self
            .counter
            .is_some_and(|counter| counter.detail == Detail::Stacks);
        Room {
            memory_mib: self.machine.memory_mib(),
            file_mib: match counts_stacks {
                true => machine::COUNTS_MIB,
                false => machine::SHARED_MIB,
            },
        }
    }

    /// Returns whether a snapshot may take its place: the guest stops when it is ready, and no cold boot was ordered.
    fn is_restorable(self) -> bool {
        self.delivery.is_some() && self.options.reuse != Reuse::Nothing
    }
}

/// Reason for which a guest's results are not there.
enum Ending {
    /// The guest is a snapshot now.
    Saved,
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

impl From<Expiry> for Ending {
    fn from(timed_out: Expiry) -> Self {
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

/// Results of moving a state, at both ends of its socket. When one fails, so does the other.
struct Transfer {
    here: Result<(), Error>,
    by_qemu: Result<(), Ending>,
}

/// A QEMU at work, with its console and its control socket.
struct Qemu<'a> {
    boot: Boot<'a>,
    folder: &'a Folder,
    child: Child,
    control: Control,
    stop: &'a Stop,
    /// Held until the snapshot is there, or cannot be made.
    making: Option<Lock>,
    /// Every report but the last, as it was written.
    lines: Vec<String>,
}

impl Qemu<'_> {
    /// Follows the console until the guest is done.
    fn follow(
        &mut self,
        saved: Option<&SnapshotFiles>,
        snapshot: Option<&Snapshot<'_>>,
        phase: &mut dyn Phase,
    ) -> Result<Vec<Report>, Ending> {
        let mut console = Console::new(self.folder.path(machine::CONSOLE));
        let mut reports = Vec::new();
        let mut watchdog = Watchdog::new(self.boot.options.timeout, self.boot.machine.mode.cpus());
        let mut awaited = self.boot.delivery;
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
                // A guest that is restored from the snapshot in the making reports it again.
                if self.making.is_none() {
                    phase.step(&next_after(&report));
                }
                reports.push(report);
                self.lines.push(line);
            }
            if console.has_more() {
                continue;
            }
            if let Some(status) = ended {
                // A signal to the whole group ends QEMU as well.
                self.stop.check()?;
                return Err(early_end(&self.child, status, reports.len()));
            }
            if watchdog.is_due(Instant::now()) {
                watchdog.look(Instant::now(), self.child.activity())?;
            }
            if self.control.has_stopped()? {
                let delivery = awaited.take().ok_or_else(stopped_twice)?;
                if let Some(snapshot) = snapshot
                    && self.save(snapshot)?
                {
                    return Err(Ending::Saved);
                }
                self.making = None;
                self.go_on(delivery)?;
                watchdog.progress();
            }
        }
    }

    /// Hands over what the guest waits for, and lets it run.
    fn go_on(&mut self, delivery: &[u8]) -> Result<(), Ending> {
        self.folder.write(machine::SHARED, delivery)?;
        self.ask("cont", json!({})).map(drop)
    }

    /// Keeps the machine, which stands still, as a snapshot, and returns whether it is found again.
    fn save(&mut self, snapshot: &Snapshot<'_>) -> Result<bool, Ending> {
        let draft = snapshot.draft()?;
        let moved = self.move_state(|ours| draft.write(ours), Self::hand_over)?;
        // A full disk ends both.
        moved.here?;
        moved.by_qemu?;
        snapshot.publish(&draft, &self.folder.path(machine::CONSOLE))?;
        Ok(snapshot.saved()?.is_some())
    }

    fn hand_over(&mut self, theirs: UnixStream) -> Result<(), Ending> {
        self.ask(
            "migrate-set-parameters",
            json!({ "max-bandwidth": NO_LIMIT }),
        )?;
        self.give(theirs)?;
        self.ask("migrate", json!({ "uri": Control::STATE_URI }))?;
        self.until("migrate", |qemu| {
            let migration = qemu.ask("query-migrate", json!({}))?;
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
    fn restore(&mut self, saved: &SnapshotFiles) -> Result<(), Ending> {
        self.until("its control socket", |qemu| {
            qemu.control.has_stopped()?;
            Ok(qemu.control.is_ready().then_some(()))
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
    ) -> Result<Transfer, Error> {
        let pair = UnixStream::pair();
        let (ours, theirs) = pair.map_err(Error::io("make", "a socket for a machine's state"))?;
        Ok(thread::scope(|scope| {
            let here = scope.spawn(|| here(ours));
            let by_qemu = by_qemu(self, theirs);
            if by_qemu.is_err() {
                self.child.kill();
            }
            Transfer {
                here: join(here),
                by_qemu,
            }
        }))
    }

    fn take_over(&mut self, theirs: UnixStream) -> Result<(), Ending> {
        self.give(theirs)?;
        self.ask("migrate-incoming", json!({ "uri": Control::STATE_URI }))?;
        self.until("migrate-incoming", |qemu| {
            let status = qemu.ask("query-status", json!({}))?;
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
        self.until(command, |qemu| Ok(qemu.control.answer()?))
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
            let ended = self.child.try_wait()?;
            self.stop.check()?;
            if let Some(status) = ended {
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
        Event::Result(json) => match json.parse() {
            Ok(Report::Error(failure)) => Err(Ending::Guest(failure.to_string())),
            Ok(report) => Ok((report, json)),
            Err(error) => Err(Ending::Guest(format!("malformed result: {error}: {json}"))),
        },
    }
}

/// QEMU that says something and fails is to blame itself; a machine that powers off early is the guest's doing.
fn early_end(child: &Child, status: std::process::ExitStatus, reports: usize) -> Ending {
    if status.success() {
        Ending::Guest(went_off(reports))
    } else {
        Ending::Lab(child.failure(status).into())
    }
}

/// The failure of a guest that turns its machine off.
fn went_off(reports: usize) -> String {
    format!("the machine went off after {reports} results, before the guest was done")
}

pub(crate) fn next_after(report: &Report) -> String {
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
        Report::DirtyPhase(dirty) => format!("{} {}", Method::from(dirty.mechanism), dirty.phase),
        Report::DirtyLoss(loss) => format!("loss {}", Method::from(loss.mechanism)),
        Report::DirtyUnavailable(one) => Method::from(one.mechanism).to_string(),
        Report::Discard(discard) => {
            format!("{} {}", Method::from(discard.mechanism), discard.backing)
        }
        Report::DiscardSingle(one) => format!("single {}", Method::from(one.mechanism)),
        Report::DiscardMisplaced(one) => format!("misplaced {}", one.backing),
        Report::DiscardHeld(one) => format!("held {}", one.backing),
        Report::DiscardClearing(_) => "clearing".to_owned(),
        Report::DiscardUnavailable(one) => Method::from(one.mechanism).to_string(),
        Report::Restore(one) | Report::RestoreControl(one) => {
            format!("{}, batch {}", Method::from(one.mechanism), one.batch)
        }
        Report::RestoreUnavailable(one) => Method::from(one.mechanism).to_string(),
        Report::KvmCase(case) => format!("case {}", case.index),
        Report::KvmCaseSkipped(case) => format!("case {}", case.index),
        Report::Pin(pin) => pin.shape.to_string(),
        Report::PinTraced(traced) => format!("trace {}", traced.shape),
        Report::PinUnavailable(shape) => shape.shape.to_string(),
        Report::PinCase(case) => format!("case {}", case.index),
        Report::Program(_) => "run".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpoint_and_an_end_without_a_word_are_qemus() {
        let faulty = |problem: &str| {
            is_qemus_fault(&LabError::Guest {
                boot: "race".into(),
                problem: problem.into(),
                log: "console.log".into(),
            })
        };
        for qemus in [
            "[    6.8] Oops: int3: 0000 [#1] SMP NOPTI",
            "[   46.7] int3: 0000 [#1] PREEMPT_RT SMP NOPTI",
            "(XEN) Hardware Dom0 crashed: rebooting machine in 5 seconds.",
            "the machine went off after 0 results, before the guest was done",
        ] {
            assert!(faulty(qemus), "{qemus}");
        }
        for guests in [
            "[    6.9] Kernel panic - not syncing: Fatal exception",
            "(XEN) Domain 0 (vcpu#1) crashed on cpu#1:",
            "the machine went off after 10 results, before the guest was done",
        ] {
            assert!(!faulty(guests), "{guests}");
        }
    }
}
