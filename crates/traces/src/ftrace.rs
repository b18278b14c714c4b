//! Reads what Linux's ftrace writes as text: function_graph, as tracefs and trace-cmd print it.
//!
//! Source: Documentation/trace/ftrace.rst, `kernel/trace/trace_functions_graph.c`; trace-cmd's plugin of that name.

mod duration;
mod function_graph;
mod line;

pub use function_graph::{FunctionCosts, FunctionGraph, RootCall};
pub use line::{GraphEvent, GraphLine};

use thiserror::Error;

/// Text that is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct FtraceError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}
