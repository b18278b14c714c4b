//! Errors of building and checking fixes.

use pagetoll_backend::{Class, Classified, Stopped};
use pagetoll_host::Error;
use pagetoll_host::make::Failure;
use pagetoll_lab::LabError;

use crate::patch::PatchError;

/// Failure to build or check a fix.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// No source, unusable input, or a file, a child or the machine failed.
    #[error(transparent)]
    Images(#[from] Error),

    /// A guest that runs the checks failed.
    #[error(transparent)]
    Lab(#[from] LabError),

    /// A patch does not apply: the series is for other sources.
    #[error("{patch} does not apply to {tree}: {source}")]
    Patch {
        /// The patch's file name.
        patch: String,
        /// The source tree's path.
        tree: String,
        /// Names file and hunk.
        source: PatchError,
    },

    /// `olddefconfig` dropped settings that the lab needs.
    #[error("the kernel config of Linux {release} is missing {}", .lacking.join(", "))]
    Config {
        /// Version by the source's Makefile, such as `6.1.192`.
        release: String,
        /// Settings, as `CONFIG_NAME=value`.
        lacking: Vec<String>,
    },

    /// The kernel does not build with the first patches alone.
    #[error("with the patches up to {patch}: {source}")]
    Bisect {
        /// The last patch that was applied.
        patch: String,
        /// Reason of the failure.
        source: Box<FixError>,
    },

    /// The kernel does not build.
    #[error("Linux {release} does not build; {failure}")]
    Build {
        /// Version by the source's Makefile, such as `6.1.192`.
        release: String,
        /// The compiler's errors, and the log.
        failure: Failure,
    },
}

impl From<Stopped> for FixError {
    fn from(stopped: Stopped) -> Self {
        Self::Images(stopped.into())
    }
}

impl Classified for FixError {
    fn class(&self) -> Class {
        match self {
            Self::Images(error) => error.class(),
            Self::Lab(error) => error.class(),
            Self::Bisect { source, .. } => source.class(),
            Self::Patch { .. } => Class::BadInput,
            Self::Config { .. } | Self::Build { .. } => Class::Environment,
        }
    }
}

impl FixError {
    /// True if the work was stopped from outside, as by Ctrl-C.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.class() == Class::Stopped
    }
}

/// Rejects a `--kernel fix:` or `--xen fix:` name.
pub(crate) fn refused(named: impl ToString, problem: String, expected: String) -> Error {
    Error::BadInput {
        what: "fix",
        value: named.to_string(),
        problem,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_shows_its_errors_and_names_its_log() {
        let error = FixError::Build {
            release: "6.1.192".into(),
            failure: Failure {
                lines: vec!["a.c:1: error: x".into()],
                log: "logs/l".into(),
            },
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "Linux 6.1.192 does not build; the whole log is logs/l\n  a.c:1: error: x"
        );
        assert_eq!(error.class(), Class::Environment);
    }
}
