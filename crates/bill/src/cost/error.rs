//! What is wrong with a host table: file, line, key, and what was expected.

use thiserror::Error;

/// Why a table cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum HostError {
    /// It is no TOML, or not of this form.
    #[error("{file}:{line}: {problem}")]
    Form {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        problem: String,
    },
    /// No figure has this key.
    #[error("{file}:{line}: figure \"{key}\": unknown cost key; expected {expected}")]
    UnknownKey {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key as given.
        key: String,
        /// The keys that are nearest.
        expected: String,
    },
    /// A figure does not say what it must, or says what cannot be.
    #[error("{file}:{line}: figure \"{key}\": {problem}")]
    Figure {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The field, its value, and what was expected.
        problem: String,
    },
    /// The route needs a figure that the table does not have.
    #[error("{file}:{line}: no figure \"{key}\" up to here; expected {expected}")]
    Lacks {
        /// The file.
        file: String,
        /// Its last line.
        line: usize,
        /// The key.
        key: &'static str,
        /// What the figure stands for.
        expected: &'static str,
    },
    /// The topology is none.
    #[error(
        "{file}: [topology]: expected sockets, l3-groups, cores and threads of at least 1 and {most} CPUs at most"
    )]
    Topology {
        /// The file.
        file: String,
        /// The most CPUs.
        most: u64,
    },
    /// The route needs the topology, and the table does not say it.
    #[error(
        "{file}:{line}: no [topology] up to here; expected sockets, l3-groups, cores and threads of the machine"
    )]
    LacksTopology {
        /// The file.
        file: String,
        /// Its last line.
        line: usize,
    },
}
