//! Why a fix could not be built or checked, and the exit code that each reason means.

use pagetoll_backend::Stopped;
use pagetoll_images::make::Failed;
use pagetoll_lab::LabError;
use thiserror::Error;

use crate::patch::PatchError;

/// Why a fix could not be built or checked.
#[derive(Debug, Error)]
pub enum FixError {
    /// The lab, or what it stands on.
    #[error(transparent)]
    Lab(#[from] LabError),

    /// Something that the caller gave cannot be used. Exit code 2.
    #[error("{what} {value}: {problem}; expected {expected}")]
    BadInput {
        /// What was given, as the user knows it.
        what: &'static str,
        /// The value as given.
        value: String,
        /// What is wrong with it.
        problem: String,
        /// What would have been accepted.
        expected: String,
    },

    /// A patch does not fit the source. Exit code 2: another source was given than the series is for.
    #[error("{patch} does not apply to {tree}: {source}")]
    Patch {
        /// The patch's file name.
        patch: String,
        /// The source.
        tree: String,
        /// File and hunk.
        source: PatchError,
    },

    /// Configuring did not give what is needed. Exit code 3.
    #[error("the configuration of Linux {release} has not what it must: {}", .lacking.join(", "))]
    Config {
        /// The kernel's version.
        release: String,
        /// The settings that are lacking.
        lacking: Vec<String>,
    },

    /// The kernel does not build. Exit code 3.
    #[error("Linux {release} does not build; {failed}")]
    Build {
        /// The kernel's version.
        release: String,
        /// How.
        failed: Failed,
    },
}

impl From<pagetoll_images::Error> for FixError {
    fn from(error: pagetoll_images::Error) -> Self {
        Self::Lab(error.into())
    }
}

impl From<Stopped> for FixError {
    fn from(stopped: Stopped) -> Self {
        Self::Lab(stopped.into())
    }
}

impl FixError {
    /// The exit code of `pagetoll` for this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Lab(error) => error.exit_code(),
            Self::BadInput { .. } | Self::Patch { .. } => 2,
            Self::Config { .. } | Self::Build { .. } => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_shows_its_errors_and_names_its_log() {
        let error = FixError::Build {
            release: "6.1.192".into(),
            failed: Failed {
                lines: vec!["a.c:1: error: x".into()],
                log: "logs/l".into(),
            },
        };
        let text = error.to_string();
        assert_eq!(
            text,
            "Linux 6.1.192 does not build; the whole log is logs/l\n  a.c:1: error: x"
        );
        assert_eq!(error.exit_code(), 3);
    }
}
