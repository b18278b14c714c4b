//! Why a fix could not be built or checked.

use pagetoll_backend::{Class, Classified, Stopped};
use pagetoll_host::Error;
use pagetoll_host::make::Failure;
use pagetoll_lab::LabError;

use crate::patch::PatchError;

/// Why a fix could not be built or checked.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The source could not be had, what the caller gave cannot be used, or a file, a child or the machine failed.
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
        /// As the source's Makefile has it, such as `6.1.192`.
        release: String,
        /// As `CONFIG_NAME=value`.
        lacking: Vec<String>,
    },

    /// The kernel does not build with the first patches alone.
    #[error("with the patches up to {patch}: {source}")]
    Bisect {
        /// The last patch that was applied.
        patch: String,
        /// Why it does not build.
        source: Box<FixError>,
    },

    /// The kernel does not build.
    #[error("Linux {release} does not build; {failure}")]
    Build {
        /// As the source's Makefile has it, such as `6.1.192`.
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
    /// Whether the work was stopped from outside, as by Ctrl-C.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.class() == Class::Stopped
    }
}

/// What was named as a fix cannot be taken.
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
