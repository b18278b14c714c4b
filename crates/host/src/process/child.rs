//! A running child, and its end.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdout, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};

use super::contain::Reach;
use super::stat::{self, Activity};
use super::stream::{self, Reader, StreamPart};
use super::{Output, Run, STDOUT_LIMIT, Stdout};
use crate::error::{Error, Outcome, ProcessError};
use pagetoll_backend::Stop;

/// Bytes of a child's stderr to keep, from its end. Assumed: some hundred lines tell the problem.
pub(super) const STDERR_KEPT: usize = 16 * 1024;
/// Time from SIGTERM to SIGKILL: a command ends within a second. Assumed: make removes targets in less.
const GRACE: Duration = Duration::from_millis(250);
/// Time limit of waiting for killed processes to disappear.
const VANISH: Duration = Duration::from_millis(500);
/// The longest sleep between two polls of a child.
const POLL: Duration = Duration::from_millis(20);

/// A running child; dropping it kills it with all that it started.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    /// The leader of the group: the program, or the wrapper that waits for it.
    group: Pid,
    reach: Reach,
    ended: Option<ExitStatus>,
    stdout: Option<Reader>,
    stderr: Option<Reader>,
    log: Option<PathBuf>,
    command: String,
}

impl Child {
    pub(super) fn new(mut inner: std::process::Child, run: &Run, reach: Reach) -> Self {
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
            group: Pid::from_child(&inner),
            reach,
            stdout: captured.map(|stdout| Reader::start(stdout, StreamPart::First(STDOUT_LIMIT))),
            stderr: inner
                .stderr
                .take()
                .map(|stderr| Reader::start(stderr, StreamPart::Last(STDERR_KEPT))),
            ended: None,
            log,
            command: run.to_string(),
            inner,
        }
    }

    /// CPU time of its group, and whether a process of it is runnable.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::new(self.group)
    }

    /// Takes stdout, once, of a child that was started [`Run::piped`].
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

    /// Exit status, or `None` while it runs. Kills the processes that it leaves running.
    ///
    /// # Errors
    /// [`Error::Io`] when wait(2) fails.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() && self.has_exited() {
            self.reap()?;
        }
        Ok(self.ended)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// [`Error::Process`] after `limit`, [`Error::Stopped`] when `stop` is requested; it has
    /// been killed then.
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

    /// Waits until it ends, and returns what it wrote.
    ///
    /// # Errors
    /// As [`run_to_end`](super::run_to_end).
    pub fn finish(mut self, limit: Duration, stop: &Stop) -> Result<Output, Error> {
        let status = self.wait(limit, stop)?;
        if self.stdout.as_ref().is_some_and(Reader::overflowed) {
            return Err(self.error(Outcome::TooMuchOutput(STDOUT_LIMIT)));
        }
        match status.success() {
            true => {
                let kept = |reader: &Option<Reader>| {
                    let reader = reader.as_ref();
                    reader.map(Reader::kept).unwrap_or_default()
                };
                Ok(Output {
                    stdout: kept(&self.stdout),
                    stderr_tail: String::from_utf8_lossy(&kept(&self.stderr)).into_owned(),
                })
            }
            false => Err(self.failure(status)),
        }
    }

    /// Ends it and all that it started: SIGTERM, a moment of grace, SIGKILL. Does nothing once it has ended.
    pub fn kill(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(Signal::TERM);
        self.await_exit(GRACE);
        if let Err(error) = self.reap() {
            tracing::warn!(command = %self.command, %error, "killed, but not reaped");
        }
    }

    /// The error that says how this child ended, with its last words.
    #[must_use]
    pub fn failure(&self, status: ExitStatus) -> Error {
        self.error(Outcome::new(status))
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

    /// Looks without reaping: as long as the leader is a zombie, its group's number is not reused.
    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let state = rustix::process::waitid(WaitId::Pid(self.group), options);
        !matches!(state, Ok(None))
    }

    fn await_exit(&self, limit: Duration) {
        let began = Instant::now();
        while !self.has_exited() && began.elapsed() < limit {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills what is left, then collects the leader.
    fn reap(&mut self) -> Result<(), Error> {
        let killed = !self.has_exited() && self.reach.kill_rest(self.group);
        if killed {
            self.await_exit(VANISH);
        }
        self.signal(Signal::KILL);
        let status = self
            .inner
            .wait()
            .map_err(Error::io("wait for", &self.command))?;
        // unshare(1) cannot end itself by SIGKILL, and exits.
        self.ended = Some(match killed {
            true => ExitStatus::from_raw(Signal::KILL.as_raw()),
            false => self.reach.status(status),
        });
        self.await_nothing_left();
        for reader in self.stdout.iter().chain(&self.stderr) {
            reader.await_end(VANISH);
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        // ESRCH alone can happen, and means that the group is gone.
        let _gone = kill_process_group(self.group, signal);
    }

    /// SIGKILL is delivered at once but dying takes a moment. The leader is gone, and with it its namespace.
    fn await_nothing_left(&self) {
        let began = Instant::now();
        let is_left = || {
            let escaped =
                matches!(self.reach, Reach::Marked(_)) && self.reach.kill_rest(self.group);
            escaped || stat::has_living_member(self.group)
        };
        while is_left() && began.elapsed() < VANISH {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}
