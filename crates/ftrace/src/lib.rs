//! Linux's tracers: tracepoints, typed, and function_graph.
//!
//! [`tracepoint`] types what tracepoints say of pages, by their `format` files; [`trace_text`] reads what `perf script`,
//! trace-cmd and tracefs print of them. [`FunctionGraph`] reads function_graph, as tracefs and trace-cmd print it.
//!
//! Sources of function_graph: Documentation/trace/ftrace.rst, `kernel/trace/trace_functions_graph.c`; trace-cmd's plugin of
//! that name.

#![forbid(unsafe_code)]

mod duration;
mod function_graph;
mod line;
pub mod trace_text;
pub mod tracepoint;

pub use function_graph::{FunctionCosts, FunctionGraph, RootCall};
pub use line::{GraphEvent, GraphLine};

use thiserror::Error;

/// Text that is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct FtraceError {
    /// The line, from 1.
    pub line: usize,
    /// Found and expected text.
    pub problem: String,
}
