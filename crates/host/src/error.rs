//! The error type of programs and files on this host; crates/images uses it as well.
//!
//! Each variant says who can do something about it: the caller, or whoever keeps the machine.

mod process;

use std::io;
use std::path::{Path, PathBuf};

use pagetoll_backend::{Class, Classified, Stopped};

#[cfg(test)]
pub(crate) use process::QUOTED_LINES;
pub use process::{Outcome, ProcessError};

/// Text of `ENOSPC` in the C locale, as tools print it.
const ENOSPC_TEXT: &str = "No space left on device";

/// Failure of a program, a file or an input.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that the caller gave cannot be used. The caller is to blame.
    #[error("{what} {value}: {problem}; expected {expected}")]
    BadInput {
        /// Name of the input, as the user knows it: `--kernel`, `--xen`, `suite`.
        what: &'static str,
        /// The value or path as given.
        value: String,
        /// Problem.
        problem: String,
        /// Accepted values.
        expected: String,
    },

    /// Programs that are not on the search path.
    #[error("not installed: {}; to install: {install}", names(.tools))]
    MissingTools {
        /// All missing tools, not only the first.
        tools: Vec<MissingTool>,
        /// One command that installs them all.
        install: String,
    },

    /// The machine lacks something that is not a program.
    #[error("{what}; {remedy}")]
    Environment {
        /// Problem of the environment.
        what: String,
        /// Remedy for the user.
        remedy: String,
    },

    /// A full file system.
    #[error("no space left on device while trying to {operation} {}; free some space there, or point PAGETOLL_CACHE to a larger file system", .path.display())]
    NoSpace {
        /// Operation.
        operation: String,
        /// File or folder.
        path: PathBuf,
    },

    /// An entry of the cache that changed after it was made. Its manifest was removed, so that the next use makes it
    /// again.
    #[error("{} {how} since {entry} was cached: it is not used, and the next run makes {entry} again", .file.display())]
    Altered {
        /// The entry's name.
        entry: String,
        /// The file of it that differs first.
        file: PathBuf,
        /// Kind of difference.
        how: &'static str,
    },

    /// The operating system refused an operation on a file.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// Operation, to read well in "cannot {operation} PATH".
        operation: String,
        /// File or folder.
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
}
