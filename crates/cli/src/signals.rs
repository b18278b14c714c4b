//! Turns signals that ask for an end into a [`Stop`], so that a backend can clean up, and ends this process when that takes
//! too long.
//!
//! However often a signal comes, the process has a moment for its own way out: a second Ctrl-C must not leave guests
//! behind. After that it ends as if it were killed, which nothing that it started survives. Commands that start nothing
//! leave the signals as they are, and an ignored SIGHUP stays ignored: that is what `nohup` is for.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_host::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::{self, Failure};
use crate::output;

/// The signals that ask for an end, with their numbers on Linux (signal(7)).
const ENDING: [(i32, u8, &str); 3] = [
    (SIGHUP, 1, "SIGHUP"),
    (SIGINT, 2, "SIGINT"),
    (SIGTERM, 15, "SIGTERM"),
];
/// Time for the work to end after a signal, of the second that is promised for the whole command.
const DEADLINE: Duration = Duration::from_millis(800);

/// Signals being watched for.
#[derive(Debug)]
pub(crate) struct Signals {
    stop: Stop,
    /// One more than the index in [`ENDING`] of the last signal; 0 before any.
    last: Arc<AtomicUsize>,
    /// A byte for each signal.
    came: UnixStream,
}

/// Watches from the first call on, to the end of this process: what is done after the work has to end as well.
pub(crate) fn watch() -> io::Result<&'static Signals> {
    static SIGNALS: OnceLock<Signals> = OnceLock::new();
    if let Some(signals) = SIGNALS.get() {
        return Ok(signals);
    }
    let signals = Signals::new()?;
    let signals = SIGNALS.get_or_init(|| signals);
    let deadline = thread::Builder::new().name("signals".to_owned());
    deadline.spawn(|| signals.end_in_time())?;
    Ok(signals)
}

/// Ignores the signals that ask for an end, and that of Ctrl-\, in this process but not in what it starts.
pub(crate) fn ignore() -> io::Result<()> {
    let heeded = Arc::new(AtomicBool::new(false));
    let numbers = ENDING.map(|(signal, ..)| signal);
    for signal in numbers.into_iter().chain([SIGQUIT]) {
        flag::register(signal, Arc::clone(&heeded))?;
    }
    Ok(())
}

impl Signals {
    fn new() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let last = Arc::new(AtomicUsize::new(0));
        let (came, comes) = UnixStream::pair()?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (index, (signal, number, _)) in ENDING.into_iter().enumerate() {
            if signal == SIGHUP && is_ignored(number, &status) {
                continue;
            }
            // Which one it was is known before the request is visible.
            flag::register_usize(signal, Arc::clone(&last), index + 1)?;
            flag::register(signal, Arc::clone(&asked))?;
            low_level::pipe::register(signal, comes.try_clone()?)?;
        }
        Ok(Self {
            stop: Stop::from_flag(asked),
            last,
            came,
        })
    }

    /// The token that the work has to look at.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The signal that came, as a reason for ending.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let index = self.last.load(Ordering::SeqCst).checked_sub(1)?;
        let (_, number, name) = *ENDING.get(index)?;
        Some(Failure::Stopped { name, number })
    }

    /// Waits for a signal, and ends this process if it is still there after the deadline: in a loop, in a system call on a
    /// file that does not answer, or removing what a build left, which the next one removes.
    fn end_in_time(&self) {
        if (&self.came).read_exact(&mut [0]).is_err() {
            return;
        }
        thread::sleep(DEADLINE);
        process::kill_all();
        let Some(failure) = self.failure() else {
            return;
        };
        let mut error = anyhow::Error::from(failure);
        if let Err(failure) = output::set_aside_unfinished() {
            error = error.context(failure);
        }
        failure::print(&error);
        low_level::exit(failure::exit_code(&error).into());
    }
}

/// Tells if a process ignores a signal, by `SigIgn` of its /proc/PID/status (proc(5)): bit N-1 for signal N.
fn is_ignored(number: u8, status: &str) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_respected() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(1, status) && is_ignored(13, status));
        assert!(!is_ignored(15, status) && !is_ignored(1, ""));
    }
}
