//! Why pagetoll did not do what was asked, on stderr, and the exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use pagetoll_backend::Class;
use pagetoll_render::harmless;
use pagetoll_sweep::StoreError;
use thiserror::Error;

/// How a command ended that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The work was done, and nothing failed.
    Success,
    /// A check failed, or something regressed.
    CheckFailed,
    /// The machine lacks something.
    Lacking,
    /// A kernel cannot be judged: what git-bisect(1) leaves out.
    LeftOut,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Success => 0,
            Outcome::CheckFailed => 1,
            Outcome::Lacking => 3,
            Outcome::LeftOut => 125,
        })
    }
}

/// Why a command could not do its work, where the command line itself finds out. Backends have [`pagetoll_backend::Error`].
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// An argument or a file of the user's cannot be used. Further lines give details.
    #[error("{0}")]
    BadInput(String),
    /// The result could not be written.
    #[error("cannot write {to}")]
    Output { to: String, source: io::Error },
    /// The store of a sweep cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This machine lacks something.
    #[error("{0}")]
    Lacking(String),
    /// A signal asked to stop.
    #[error("stopped by {name}")]
    Stopped { name: &'static str, number: u8 },
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Store(StoreError::Io { .. }) | Self::Output { .. } | Self::Lacking(_) => 3,
            Self::BadInput(_) | Self::Store(_) => 2,
            // As a shell has it for a program that a signal ended.
            Self::Stopped { number, .. } => 128 + number,
        }
    }
}

/// The exit code for an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        let own = cause.downcast_ref().map(Failure::exit_code);
        own.or_else(|| cause.downcast_ref().map(of_class))
    };
    error.chain().find_map(of_cause).unwrap_or(1)
}

fn of_class(error: &pagetoll_backend::Error) -> u8 {
    match error.class() {
        Class::BadInput => 2,
        Class::Failed => 1,
        Class::Environment => 3,
        Class::Stopped => 130,
    }
}

/// Prints an error on stderr: one line, then its causes and details, indented.
pub(crate) fn print(error: &anyhow::Error) {
    say(
        "error",
        AnsiColor::Red.on_default().bold(),
        &lines_of(error),
    );
}

/// Whether notes are unwanted.
static SILENT: AtomicBool = AtomicBool::new(false);

/// From now on, notes are not printed.
pub(crate) fn silence_notes() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Prints a note on stderr: the work was done, but the user should know.
pub(crate) fn note(text: &str) {
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    say(
        "note",
        AnsiColor::Yellow.on_default().bold(),
        &[text.to_owned()],
    );
}

/// Prints a failed check on stderr.
pub(crate) fn failed_check(text: &str) {
    say(
        "failed",
        AnsiColor::Red.on_default().bold(),
        &[text.to_owned()],
    );
}

fn say(label: &str, style: Style, lines: &[String]) {
    let lines: Vec<_> = lines.iter().map(|line| harmless(line)).collect();
    let text = lines.join("\n  ");
    let text = format!("pagetoll: {style}{label}{style:#}: {text}\n");
    // Without stderr there is no place left to report to.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// A message may have several lines, and may already quote its cause.
fn lines_of(error: &anyhow::Error) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !lines.iter().any(|line| line.ends_with(&cause)) {
            lines.extend(cause.lines().map(|line| line.trim().to_owned()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::Context;

    use super::*;

    #[test]
    fn each_kind_of_error_has_its_code() {
        let bad = anyhow::Error::from(Failure::BadInput("x".into()));
        assert_eq!(exit_code(&bad.context("reading")), 2);
        let lab = pagetoll_host::Error::Environment {
            what: "no mirror".into(),
            remedy: "add one".into(),
        };
        assert_eq!(exit_code(&pagetoll_backend::Error::from(lab).into()), 3);
        let stopped = Failure::Stopped {
            name: "SIGTERM",
            number: 15,
        };
        assert_eq!(exit_code(&stopped.into()), 143);
        assert_eq!(exit_code(&anyhow::anyhow!("unforeseen")), 1);
    }

    #[test]
    fn a_cause_is_printed_once() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = pagetoll_host::Error::io("write", Path::new("x"))(denied);
        let lines = lines_of(&anyhow::Error::from(error));
        assert_eq!(lines, ["cannot write x: permission denied"]);

        let full = Failure::Output {
            to: "x".into(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        let lines = lines_of(&anyhow::Error::from(full));
        assert_eq!(lines, ["cannot write x", "no storage space"]);
    }

    #[test]
    fn details_follow_on_lines_of_their_own() {
        let error = Err::<(), _>(Failure::BadInput("first\n  second".into()))
            .context("outer")
            .unwrap_err();
        assert_eq!(lines_of(&error), ["outer", "first", "second"]);
    }
}
