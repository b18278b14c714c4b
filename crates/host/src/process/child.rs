//! A running child, and its end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::Stop;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};

use super::contain::Reach;
use super::stat::{self, Activity};
use super::{Output, Run, STDOUT_LIMIT, Stdout};
use crate::error::{Error, Outcome, ProcessError};

/// Bytes of a child's stderr that are kept: its end. Assumed: some hundred lines say what went wrong.
pub(super) const STDERR_KEPT: usize = 16 * 1024;
/// Time for a group to follow SIGTERM before SIGKILL: a command ends within a second. Assumed: make removes
/// targets in less.
const GRACE: Duration = Duration::from_millis(250);
/// Time for killed processes to disappear, after which the wait for them ends.
const VANISH: Duration = Duration::from_millis(500);
/// The longest sleep between two looks at a child.
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
            stdout: captured.map(|stdout| Reader::start(stdout, Part::First(STDOUT_LIMIT))),
            stderr: inner
                .stderr
                .take()
                .map(|stderr| Reader::start(stderr, Part::Last(STDERR_KEPT))),
            ended: None,
            log,
            command: run.to_string(),
            inner,
        }
    }

    /// CPU time of its group so far, and whether any of it wants to run.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::read(self.group)
    }

    /// The end of what it has written to stderr, or to its log file.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        match (&self.log, &self.stderr) {
            (Some(log), _) => end_of_file(log, STDERR_KEPT),
            (None, Some(stderr)) => String::from_utf8_lossy(&stderr.kept()).into_owned(),
            (None, None) => String::new(),
        }
    }

    /// Its exit status, or `None` while it runs. Processes that it left running are killed.
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
    /// been killed then. [`Error::Stopped`] too where it failed after the request: who signals a whole group or cgroup
    /// signals both.
    pub fn wait(&mut self, limit: Duration, stop: &Stop) -> Result<ExitStatus, Error> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.try_wait()? {
                return match stop.requested() && !status.success() {
                    true => Err(Error::Stopped),
                    false => Ok(status),
                };
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
            true => Ok(self.output()),
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
        self.error(Outcome::from(status))
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

/// Which part of a stream is kept when it is longer than the memory given to it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Its beginning; the rest is read and dropped, so that the child does not block.
    First(usize),
    /// Its end.
    Last(usize),
}

#[derive(Debug, Default)]
struct Contents {
    bytes: VecDeque<u8>,
    overflowed: bool,
    ended: bool,
}

impl Contents {
    fn add(&mut self, chunk: &[u8], kept: Part) {
        self.bytes.extend(chunk);
        let (Part::First(limit) | Part::Last(limit)) = kept;
        let excess = self.bytes.len().saturating_sub(limit);
        self.overflowed |= excess > 0;
        match kept {
            Part::First(limit) => self.bytes.truncate(limit),
            Part::Last(_) => drop(self.bytes.drain(..excess)),
        }
    }
}

/// A stream that is being read.
#[derive(Debug)]
struct Reader {
    shared: Arc<(Mutex<Contents>, Condvar)>,
}

impl Reader {
    /// Starts to read; the thread ends with the stream.
    fn start(mut stream: impl Read + Send + 'static, kept: Part) -> Self {
        let shared = Arc::new((Mutex::new(Contents::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            let mut chunk = [0; 8192];
            // An unreadable pipe has nothing more to say: same as its end.
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                lock(&theirs.0).add(&chunk[..count], kept);
            }
            lock(&theirs.0).ended = true;
            theirs.1.notify_all();
        });
        Self { shared }
    }

    /// Waits for the end of the stream. A process that escaped its group can hold it open for ever: hence a limit.
    fn await_end(&self, limit: Duration) {
        let contents = lock(&self.shared.0);
        let waited = self
            .shared
            .1
            .wait_timeout_while(contents, limit, |contents| !contents.ended);
        drop(waited);
    }

    /// Bytes that are kept so far.
    fn kept(&self) -> Vec<u8> {
        lock(&self.shared.0).bytes.iter().copied().collect()
    }

    /// Returns whether there was more than is kept.
    fn overflowed(&self) -> bool {
        lock(&self.shared.0).overflowed
    }
}

/// A reader that panicked left bytes that are still good to quote.
fn lock(contents: &Mutex<Contents>) -> MutexGuard<'_, Contents> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last bytes of a file as text; what cannot be read is left out, since it would only be quoted.
fn end_of_file(path: &Path, limit: usize) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_or_the_end() {
        for (kept, expected) in [(Part::First(4), &b"abcd"[..]), (Part::Last(4), b"efgh")] {
            let reader = Reader::start(&b"abcdefgh"[..], kept);
            reader.await_end(Duration::from_secs(5));
            assert_eq!(reader.kept(), expected);
            assert!(reader.overflowed());
        }
    }

    #[test]
    fn a_missing_log_has_no_end() {
        assert_eq!(end_of_file(Path::new("no/such/log"), 10), "");
    }
}
