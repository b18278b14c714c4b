//! Child processes that cannot outlive their purpose.
//!
//! Every child leads its own process group, which is killed as a whole when its time is up, when
//! a [`Stop`] is requested and when its guard is dropped, unwinding included. Where `setpriv`
//! can do it, the kernel also kills the child when this process dies without a chance to tidy up.
//!
//! What it does not do: a grandchild that leaves the group (`setsid`) is not followed, and
//! `PR_SET_PDEATHSIG` (prctl(2)) reaches the direct child only. That signal is bound to the
//! *thread* that spawned the child: a [`Child`] must be started on a thread that lives at least
//! as long as the child is wanted.

mod group;
mod outcome;
mod stream;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::error::Error;
use crate::tools::{Installer, SearchPath};
pub use outcome::{Outcome, ProcessError};
use pagetoll_backend::Stop;
use stream::{Kept, Reader};

/// How much of a child's stderr is kept: its end. Assumed: some hundred lines say what went wrong.
const STDERR_KEPT: usize = 16 * 1024;
/// How much captured stdout is accepted. Assumed: an `apt-cache dump` of one suite is below 100 MiB.
const STDOUT_LIMIT: usize = 256 * 1024 * 1024;
/// How long a group may take to follow SIGTERM before SIGKILL. Assumed: make removes targets in less.
const GRACE: Duration = Duration::from_secs(1);
/// How long killed processes may take to disappear before the wait for them is given up.
const VANISH: Duration = Duration::from_millis(500);
/// The longest sleep between two looks at a child.
const POLL: Duration = Duration::from_millis(20);

/// What a child that ended well left behind.
#[derive(Debug)]
pub struct Output {
    /// All of its stdout; empty when it went to a log file.
    pub stdout: Vec<u8>,
    /// The end of its stderr; empty when it went to a log file.
    pub stderr_tail: String,
}

impl Output {
    /// Its stdout as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Where a child's stdout goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stdout {
    /// Kept in memory.
    Captured,
    /// To whoever takes [`Child::take_stdout`].
    Piped,
    /// Appended to this file, together with stderr.
    Logged(PathBuf),
}

/// A program to be run, with its arguments and surroundings.
///
/// The child gets no stdin, and `LC_ALL=C`, because its messages are parsed and quoted.
#[derive(Debug, Clone)]
pub struct Run {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    stdout: Stdout,
}

impl Run {
    /// A program by its name on the search path, or by its path.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: vec![("LC_ALL".into(), "C".into())],
            directory: None,
            stdout: Stdout::Captured,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets one variable of its environment; the rest is inherited.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Appends stdout and stderr to a file instead of keeping them; errors quote the end of the file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = Stdout::Logged(path.into());
        self
    }

    /// Leaves stdout to whoever calls [`Child::take_stdout`].
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.stdout = Stdout::Piped;
        self
    }

    /// Starts it. Mind the thread rule in the module's head.
    ///
    /// # Errors
    /// [`Error::Environment`] when there is no such program, [`Error::Process`] when it does
    /// not start, [`Error::Io`] when its log file cannot be written.
    pub fn start(&self) -> Result<Child, Error> {
        let program = SearchPath::from_env()
            .find(&self.program)
            .ok_or_else(|| self.not_found())?;
        let mut command = with_death_signal(&program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        self.direct_output(&mut command)?;
        let inner = command
            .spawn()
            .map_err(|error| self.failed(Outcome::NotStarted(error)))?;
        Ok(Child::new(inner, self))
    }

    fn direct_output(&self, command: &mut Command) -> Result<(), Error> {
        if let Stdout::Logged(path) = &self.stdout {
            let log = open_log(path).map_err(Error::io("write", path))?;
            let clone = log.try_clone().map_err(Error::io("write", path))?;
            command.stdout(log).stderr(clone);
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        Ok(())
    }

    fn not_found(&self) -> Error {
        Error::Environment {
            what: format!("{} is not installed", self.program.to_string_lossy()),
            remedy: format!(
                "install the package that brings it, such as by: {}",
                Installer::current().command(&[&self.program.to_string_lossy()])
            ),
        }
    }

    fn failed(&self, outcome: Outcome) -> Error {
        Box::new(ProcessError {
            command: self.to_string(),
            outcome,
            stderr_tail: String::new(),
        })
        .into()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.program))?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", shown(argument)))
    }
}

fn shown(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn with_death_signal(program: &Path) -> Command {
    match death_signal_setter() {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// `setpriv` where it knows `--pdeathsig`: util-linux has it since 2.33, busybox's has not.
fn death_signal_setter() -> Option<&'static Path> {
    static SETPRIV: OnceLock<Option<PathBuf>> = OnceLock::new();
    let probe = || {
        let setpriv = SearchPath::from_env().find(OsStr::new("setpriv"))?;
        let works = Command::new(&setpriv)
            .args(["--pdeathsig", "KILL", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        works
            .is_ok_and(|status| status.success())
            .then_some(setpriv)
    };
    SETPRIV.get_or_init(probe).as_deref()
}

/// Runs a program until it ends.
///
/// # Errors
/// [`Error::Process`] unless it exits with 0 within `limit`; [`Error::Stopped`] as soon as
/// `stop` is requested. In every case nothing of its process group is left.
pub fn run_to_end(run: &Run, limit: Duration, stop: &Stop) -> Result<Output, Error> {
    let mut child = run.start()?;
    let status = child.wait(limit, stop)?;
    let output = child.output();
    if child.stdout.as_ref().is_some_and(Reader::overflowed) {
        return Err(child.error(Outcome::TooMuchOutput(STDOUT_LIMIT)));
    }
    if status.success() {
        Ok(output)
    } else {
        Err(child.error(Outcome::of(status)))
    }
}

/// A running child; dropping it kills its whole process group.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    group: Option<Pid>,
    ended: Option<ExitStatus>,
    stdout: Option<Reader>,
    stderr: Option<Reader>,
    log: Option<PathBuf>,
    command: String,
}

impl Child {
    fn new(mut inner: std::process::Child, run: &Run) -> Self {
        let captured = if run.stdout == Stdout::Captured {
            inner.stdout.take()
        } else {
            None
        };
        let log = if let Stdout::Logged(path) = &run.stdout {
            Some(path.clone())
        } else {
            None
        };
        Self {
            group: i32::try_from(inner.id()).ok().and_then(Pid::from_raw),
            stdout: captured.map(|stdout| Reader::start(stdout, Kept::First(STDOUT_LIMIT))),
            stderr: inner
                .stderr
                .take()
                .map(|stderr| Reader::start(stderr, Kept::Last(STDERR_KEPT))),
            ended: None,
            log,
            command: run.to_string(),
            inner,
        }
    }

    /// Its process id, which is also its process group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Its stdout, once, when it was started [`Run::piped`].
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.inner.stdout.take()
    }

    /// The end of what it has written to stderr, or to its log file.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        match (&self.log, &self.stderr) {
            (Some(log), _) => stream::end_of_file(log, STDERR_KEPT),
            (None, Some(stderr)) => String::from_utf8_lossy(&stderr.kept()).into_owned(),
            (None, None) => String::new(),
        }
    }

    /// How it ended, or `None` while it runs. What it left in its group is killed.
    ///
    /// # Errors
    /// [`Error::Io`] when the system does not tell.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() && self.has_exited() {
            self.reap()?;
        }
        Ok(self.ended)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// [`Error::Process`] after `limit`, [`Error::Stopped`] when `stop` is requested; the
    /// group has been killed then.
    pub fn wait(&mut self, limit: Duration, stop: &Stop) -> Result<ExitStatus, Error> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if stop.requested() {
                self.kill();
                return Err(Error::Stopped);
            }
            if began.elapsed() >= limit {
                self.kill();
                return Err(self.error(Outcome::TimedOut(limit)));
            }
            thread::sleep(pause.min(limit.saturating_sub(began.elapsed())));
            pause = (pause * 2).min(POLL);
        }
    }

    /// Ends the whole group: SIGTERM, a second of grace, SIGKILL. Does nothing once it has ended.
    pub fn kill(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(Signal::TERM);
        let began = Instant::now();
        while !self.has_exited() && began.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(2));
        }
        if let Err(error) = self.reap() {
            tracing::warn!(command = %self.command, %error, "killed, but not reaped");
        }
    }

    /// The error that says how this child ended, with its last words.
    #[must_use]
    pub fn failure(&self, status: ExitStatus) -> Error {
        self.error(Outcome::of(status))
    }

    fn error(&self, outcome: Outcome) -> Error {
        let (command, stderr_tail) = (self.command.clone(), self.stderr_tail());
        Box::new(ProcessError {
            command,
            outcome,
            stderr_tail,
        })
        .into()
    }

    fn output(&self) -> Output {
        let stdout = self.stdout.as_ref().map(Reader::kept).unwrap_or_default();
        let stderr = self.stderr.as_ref().map(Reader::kept).unwrap_or_default();
        Output {
            stdout,
            stderr_tail: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Looks without reaping: as long as the leader is a zombie, nobody else can get its group's number.
    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.group.is_none_or(|leader| {
            !matches!(
                rustix::process::waitid(WaitId::Pid(leader), options),
                Ok(None)
            )
        })
    }

    /// Kills what is left of the group, then collects the leader.
    fn reap(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL);
        let status = self
            .inner
            .wait()
            .map_err(Error::io("wait for", &self.command))?;
        self.ended = Some(status);
        self.await_empty_group();
        for reader in self.stdout.iter().chain(&self.stderr) {
            reader.await_end(VANISH);
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // ESRCH alone can happen, and means that there is nobody left to be told.
            let _gone = rustix::process::kill_process_group(group, signal);
        }
    }

    /// SIGKILL is delivered at once but dying takes a moment.
    fn await_empty_group(&self) {
        let began = Instant::now();
        while self.group.is_some_and(group::has_living_member) && began.elapsed() < VANISH {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests;
