//! Failure of a child process.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Number of lines of stderr that an error quotes.
pub(crate) const QUOTED_LINES: usize = 12;

/// Outcome of a child that failed.
#[derive(Debug)]
pub enum Outcome {
    /// Not started.
    NotStarted(io::Error),
    /// Exited with this code.
    Exited(i32),
    /// Ended by this signal.
    Signalled(i32),
    /// Killed because it ran longer than this.
    TimedOut(Duration),
    /// Rejected: it wrote more than this many bytes to stdout.
    TooMuchOutput(usize),
}

impl Outcome {
    pub(crate) fn new(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signalled(signal.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "could not be started: {error}"),
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signalled(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut(limit) => write!(f, "timed out after {} s", limit.as_secs_f64()),
            Self::TooMuchOutput(limit) => write!(f, "wrote more than {limit} bytes"),
        }
    }
}

/// A child that did not end well: which, how, and its last words.
#[derive(Debug, Error)]
#[error("{command}: {outcome}{}", quoted(.stderr_tail))]
pub struct ProcessError {
    /// Program and arguments.
    pub command: String,
    /// Outcome.
    pub outcome: Outcome,
    /// The end of its stderr, or of its log file.
    pub stderr_tail: String,
}

/// Messages of programs that were ended by a signal, or out of a resource, or that ran such programs.
const PASSING: [&str; 11] = [
    "Killed",
    "Terminated",
    "terminated with signal",
    "Segmentation fault",
    "internal compiler error",
    "Cannot allocate memory",
    "out of memory",
    "memory exhausted",
    "Resource temporarily unavailable",
    "No space left on device",
    "Too many open files",
];
/// Exit codes above this are a shell's, for signals.
const LARGEST_OWN_CODE: i32 = 127;

impl ProcessError {
    /// True if the program rejected its input and would do so again. A compiler that was killed, or ran out of memory,
    /// did not.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let exited = matches!(self.outcome, Outcome::Exited(code) if code <= LARGEST_OWN_CODE);
        let says = |text: &&str| self.stderr_tail.contains(*text);
        // A program that make ran was ended by a signal: `make: *** [x.o] Error 137`.
        let codes = self.stderr_tail.lines().filter(|line| line.contains("***"));
        let mut codes = codes.filter_map(|line| line.rsplit_once(" Error ")?.1.trim().parse().ok());
        let signalled = codes.any(|code: i32| code > LARGEST_OWN_CODE);
        exited && !PASSING.iter().any(says) && !signalled
    }
}

fn quoted(tail: &str) -> String {
    let lines: Vec<&str> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refusal(outcome: Outcome, stderr: &str) -> bool {
        let error = ProcessError {
            command: "make".into(),
            outcome,
            stderr_tail: stderr.into(),
        };
        error.is_refusal()
    }

    #[test]
    fn a_compiler_that_was_killed_or_starved_did_not_refuse() {
        let refused =
            "x.c:1:1: error: unknown type\nmake[2]: *** [x.o] Error 1\nmake: *** [y] Error 2\n";
        assert!(is_refusal(Outcome::Exited(2), refused));
        let passing = [
            "make[3]: *** [scripts/Makefile.build:250: trial.o] Error 137\nmake: *** [x] Error 2",
            "gcc: fatal error: Killed signal terminated program cc1",
            "cc1: out of memory allocating 65536 bytes",
            "x.c: No space left on device",
            "sh: 1: Cannot fork: Resource temporarily unavailable",
        ];
        for stderr in passing {
            assert!(!is_refusal(Outcome::Exited(2), stderr), "{stderr}");
        }
        assert!(!is_refusal(Outcome::Signalled(9), refused));
        assert!(!is_refusal(Outcome::Exited(137), refused));
        assert!(!is_refusal(
            Outcome::TimedOut(Duration::from_secs(1)),
            refused
        ));
    }
}
