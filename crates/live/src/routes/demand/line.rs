//! One line of a bill before it is a row: a mechanism on so many vCPUs with a batch, and its runs.

use std::fmt;

use super::mechanism::Mechanism;
use super::run::Measured;

/// One line of the bill to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mechanism: Mechanism,
    pub(super) vcpus: usize,
    pub(super) batch: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mechanism, vcpus) = (self.mechanism.name(), self.vcpus);
        write!(f, "{mechanism} on {vcpus} vCPUs, batch {}", self.batch)
    }
}

/// What became of a line: its runs, or why it has none.
pub(super) type Outcome = Result<Vec<Measured>, Lacking>;

/// What the host lacks, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) what: String,
    pub(super) remedy: String,
}
