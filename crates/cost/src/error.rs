//! Errors in a cost table: file, line, key, and expectation.

use thiserror::Error;

/// A table that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CostError {
    /// Not TOML, or not of this form.
    #[error("{file}:{line}: {problem}")]
    Form {
        /// Name of the table, or its path.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Message of the parser.
        problem: String,
    },
    /// No figure has this key.
    #[error("{file}:{line}: figure \"{key}\": unknown cost key; expected {expected}")]
    UnknownKey {
        /// Name of the table, or its path.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Key in the file.
        key: String,
        /// The keys that are nearest.
        expected: String,
    },
    /// A figure lacks a field, or a field has a value outside its range.
    #[error("{file}:{line}: figure \"{key}\": {problem}")]
    Figure {
        /// Name of the table, or its path.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Key of the figure.
        key: String,
        /// The field, its value, and what was expected.
        problem: String,
    },
    /// The route needs a figure that the table does not have.
    #[error("{file}:{line}: no figure \"{key}\" up to here; expected {expected}")]
    Lacks {
        /// Name of the table, or its path.
        file: String,
        /// Number of its last line, from 1.
        line: usize,
        /// Key of the figure.
        key: &'static str,
        /// Meaning of the figure.
        expected: &'static str,
    },
    /// The topology is none.
    #[error(
        "{file}: [topology]: expected sockets, l3-groups, cores and threads of at least 1 and {most} CPUs at most"
    )]
    Topology {
        /// Name of the table, or its path.
        file: String,
        /// Upper bound of the product.
        most: u64,
    },
    /// The route needs the topology, and the table does not say it.
    #[error(
        "{file}:{line}: no [topology] up to here; expected sockets, l3-groups, cores and threads of the machine"
    )]
    LacksTopology {
        /// Name of the table, or its path.
        file: String,
        /// Number of its last line, from 1.
        line: usize,
    },
}
