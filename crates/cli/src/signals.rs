//! Turns signals that ask for an end into a [`Stop`], so that the lab can tidy up.
//!
//! However often a signal comes, the process only ends by the lab's own way out: a second Ctrl-C must not leave
//! guests behind. Commands that start nothing leave the signals as they are, and so does everybody with a SIGHUP
//! that is ignored: that is what `nohup` is for.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagetoll_backend::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// The signals that ask for an end, with their numbers on Linux (signal(7)).
const ENDING: [(i32, u8, &str); 3] = [
    (SIGHUP, 1, "SIGHUP"),
    (SIGINT, 2, "SIGINT"),
    (SIGTERM, 15, "SIGTERM"),
];

/// Signals being watched for.
#[derive(Debug)]
pub(crate) struct Signals {
    asked: Arc<AtomicBool>,
    stop: Stop,
    /// One more than the index in [`ENDING`] of the last signal; 0 before any.
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Watches from now on.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let last = Arc::new(AtomicUsize::new(0));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (index, (signal, number, _)) in ENDING.into_iter().enumerate() {
            if signal == SIGHUP && is_ignored(number, &status) {
                continue;
            }
            // Which one it was is known before anybody sees that one came.
            flag::register_usize(signal, Arc::clone(&last), index + 1)?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self {
            stop: Stop::from_flag(Arc::clone(&asked)),
            asked,
            last,
        })
    }

    /// What the work has to look at.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The same for work that only looks at a flag.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    /// The signal that came, as a reason for ending.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let index = self.last.load(Ordering::SeqCst).checked_sub(1)?;
        let (_, number, name) = *ENDING.get(index)?;
        Some(Failure::Stopped { name, number })
    }
}

/// Whether a process ignores a signal, by `SigIgn` of its /proc/PID/status (proc(5)): bit N-1 for signal N.
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

    #[test]
    fn a_signal_asks_to_stop_and_is_remembered() {
        let signals = Signals::watch().unwrap();
        assert!(!signals.stop().requested() && signals.failure().is_none());
        for _ in 0..2 {
            signal_hook::low_level::raise(SIGTERM).unwrap();
            assert!(signals.stop().requested());
            let failure = signals.failure().unwrap();
            assert_eq!(failure.to_string(), "stopped by SIGTERM");
        }
    }
}
