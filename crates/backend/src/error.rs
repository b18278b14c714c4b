//! Classes of errors. Exit codes are the command line's.

use std::error::Error as StdError;
use std::fmt;

use pagetoll_bill::OrderError;
use pagetoll_bill::options::NotApplicable;

use crate::stop::Stopped;

/// Party that can act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The caller: an option, a file or a value cannot be used.
    BadInput,
    /// The one who maintains what was run: it did not come to its end, or failed a check.
    Failed,
    /// The owner of the machine: it lacks something, or a guest failed on it.
    Environment,
    /// The work was stopped, as by Ctrl-C.
    Stopped,
}

/// An error that knows its class.
pub trait Classified: StdError + Send + Sync + 'static {
    /// Party that can act on the failure.
    fn class(&self) -> Class;
}

/// Failure of a backend.
#[derive(Debug)]
pub struct Error {
    class: Class,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// A refusal of something that the caller gave, in words that name it.
    #[must_use]
    pub fn bad_input(problem: impl Into<String>) -> Self {
        Self {
            class: Class::BadInput,
            source: problem.into().into(),
        }
    }

    /// Party that can act on the failure.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl<E: Classified> From<E> for Error {
    fn from(error: E) -> Self {
        Self {
            class: error.class(),
            source: Box::new(error),
        }
    }
}

impl Classified for Stopped {
    fn class(&self) -> Class {
        Class::Stopped
    }
}

impl Classified for OrderError {
    fn class(&self) -> Class {
        Class::BadInput
    }
}

impl Classified for NotApplicable {
    fn class(&self) -> Class {
        Class::BadInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_words_and_its_class() {
        let error = Error::from(Stopped);
        assert_eq!(
            (error.class(), error.to_string()),
            (Class::Stopped, "interrupted".into())
        );
        let refused = Error::bad_input("--pages 0: expected 1 to 4");
        assert_eq!(refused.class(), Class::BadInput);
    }
}
