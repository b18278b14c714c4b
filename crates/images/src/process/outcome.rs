//! How a child ended badly, and how that is told.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// How many lines of stderr an error quotes.
pub(super) const QUOTED_LINES: usize = 12;

/// How a child ended, where that was not success.
#[derive(Debug)]
pub enum Outcome {
    /// It could not be started.
    NotStarted(io::Error),
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It was killed because it ran longer than this.
    TimedOut(Duration),
    /// It was not believed: it wrote more than this many bytes to stdout.
    TooMuchOutput(usize),
}

impl Outcome {
    pub(super) fn of(status: ExitStatus) -> Self {
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
    /// What happened.
    pub outcome: Outcome,
    /// The end of its stderr, or of its log file.
    pub stderr_tail: String,
}

fn quoted(tail: &str) -> String {
    let lines: Vec<&str> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}
