//! The error type of programs and files on this host; crates/images uses it as well.
//!
//! Each variant says who can do something about it: the caller, or whoever keeps the machine.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use std::{fmt, io};

use pagetoll_backend::{Class, Classified, Stopped};

/// Text of ENOSPC, in any locale-free tool output.
const ENOSPC_TEXT: &str = "No space left on device";

/// Failure of a program, a file or an input.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that the caller gave cannot be used. The caller is to blame.
    #[error("{what} {value}: {problem}; expected {expected}")]
    BadInput {
        /// The name of the input, as the user knows it: `--kernel`, `--xen`, `suite`.
        what: &'static str,
        /// The value or path as given.
        value: String,
        /// The problem with it.
        problem: String,
        /// Values that would have been accepted.
        expected: String,
    },

    /// Programs that are not on the search path.
    #[error("not installed: {}; to install: {install}", names(.tools))]
    MissingTools {
        /// Every one that is missing, not only the first.
        tools: Vec<MissingTool>,
        /// One command that installs them all.
        install: String,
    },

    /// The machine lacks something that is not a program.
    #[error("{what}; {remedy}")]
    Environment {
        /// The thing that is lacking, or that failed because of it.
        what: String,
        /// Advice for the user.
        remedy: String,
    },

    /// A full file system.
    #[error("no space left on device while trying to {operation} {}; free some space there, or point PAGETOLL_CACHE to a larger file system", .path.display())]
    NoSpace {
        /// The operation that failed.
        operation: String,
        /// The file or folder of the operation.
        path: PathBuf,
    },

    /// An entry of the cache that changed after it was made. It has lost its record, so that it is made anew when it is
    /// wanted again.
    #[error("{} {how} since {entry} was made in the cache: it is not used, and the next run makes {entry} anew", .file.display())]
    Altered {
        /// The entry's name.
        entry: String,
        /// The file of it that differs first.
        file: PathBuf,
        /// The difference in words.
        how: &'static str,
    },

    /// The operating system refused an operation on a file.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// The operation, so that "cannot {operation} PATH" reads well.
        operation: String,
        /// On which file.
        path: PathBuf,
        /// The errno.
        source: io::Error,
    },

    /// A child process that did not end well.
    #[error(transparent)]
    Process(#[from] Box<ProcessError>),

    /// A stop was requested.
    #[error("interrupted")]
    Stopped,
}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::BadInput { .. } => Class::BadInput,
            Self::Process(_)
            | Self::MissingTools { .. }
            | Self::Environment { .. }
            | Self::NoSpace { .. }
            | Self::Altered { .. }
            | Self::Io { .. } => Class::Environment,
            Self::Stopped => Class::Stopped,
        }
    }
}

impl Error {
    /// Turns an `io::Error` into a [`Error::Io`]; into a [`Error::NoSpace`] or [`Error::Environment`] where the file system
    /// is full or read-only.
    ///
    /// Made for `map_err`: `fs::read(path).map_err(Error::io("read", path))`.
    pub fn io(
        operation: impl Into<String>,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let (operation, path) = (operation.into(), path.as_ref().to_path_buf());
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { operation, path }
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::Environment {
                what: format!(
                    "cannot {operation} {}: its file system is read-only",
                    path.display()
                ),
                remedy: "mount it for writing, or point PAGETOLL_CACHE to another file system"
                    .into(),
            },
            _ => Self::Io {
                operation,
                path,
                source,
            },
        }
    }

    /// A [`Error::BadInput`] about a file.
    pub fn bad_file(
        what: &'static str,
        path: &Path,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::BadInput {
            what,
            value: path.display().to_string(),
            problem: problem.into(),
            expected: expected.into(),
        }
    }

    /// Turns a child's failure for want of disk space below `path` into [`Error::NoSpace`].
    #[must_use]
    pub fn or_no_space(self, operation: &str, path: &Path) -> Self {
        match &self {
            Self::Process(error) if error.stderr_tail.contains(ENOSPC_TEXT) => Self::NoSpace {
                operation: operation.to_owned(),
                path: path.to_path_buf(),
            },
            _ => self,
        }
    }
}

/// A program or library that was looked for and not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// The program, or the library's file.
    pub program: &'static str,
    /// The Debian package that installs it.
    pub package: &'static str,
}

fn names(tools: &[MissingTool]) -> String {
    tools
        .iter()
        .map(|tool| tool.program)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Lines of stderr that an error quotes.
pub(crate) const QUOTED_LINES: usize = 12;

/// The end of a child that did not succeed.
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

impl From<ExitStatus> for Outcome {
    fn from(status: ExitStatus) -> Self {
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
#[derive(Debug, thiserror::Error)]
#[error("{command}: {outcome}{}", quoted(.stderr_tail))]
pub struct ProcessError {
    /// Program and arguments.
    pub command: String,
    /// The end of the child.
    pub outcome: Outcome,
    /// The end of its stderr, or of its log file.
    pub stderr_tail: String,
}

/// Messages of programs about themselves or their children when a signal ended one, or a resource was used up.
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
    /// Returns whether the program failed by itself, and would again: a compiler that was killed, or ran out of memory, did
    /// not.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let exited = matches!(self.outcome, Outcome::Exited(code) if code <= LARGEST_OWN_CODE);
        let says = |text: &&str| self.stderr_tail.contains(*text);
        exited && !PASSING.iter().any(says) && !self.make_saw_a_signal()
    }

    /// `make: *** [x.o] Error 137`.
    fn make_saw_a_signal(&self) -> bool {
        let codes = self.stderr_tail.lines().filter(|line| line.contains("***"));
        let mut codes = codes.filter_map(|line| line.rsplit_once(" Error ")?.1.trim().parse().ok());
        codes.any(|code: i32| code > LARGEST_OWN_CODE)
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

    #[test]
    fn a_full_disk_is_told_apart_from_other_refusals() {
        let full = Error::io("write", "cache/x")(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Error::NoSpace { .. }), "{full}");
        assert_eq!(full.class(), Class::Environment);
        let denied =
            Error::io("write", "cache/x")(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(
            denied.to_string(),
            "cannot write cache/x: permission denied"
        );
    }

    #[test]
    fn bad_input_names_what_value_problem_and_expectation() {
        let error = Error::bad_file("--kernel", Path::new("k"), "is empty", "a bzImage");
        assert_eq!(
            error.to_string(),
            "--kernel k: is empty; expected a bzImage"
        );
        assert_eq!(error.class(), Class::BadInput);
    }

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
