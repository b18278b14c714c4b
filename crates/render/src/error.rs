//! Errors of writing.

use thiserror::Error;

use crate::flamegraph::FlameGraphError;
use crate::format::{Format, Kind};

/// A result that could not be written.
#[derive(Debug, Error)]
pub enum RenderError {
    /// The format has no form for it.
    #[error("{kind} cannot be written as {format}; expected one of {}", names(*.kind))]
    NotWritten {
        /// The kind of the result.
        kind: Kind,
        /// The format that was asked for.
        format: Format,
    },
    /// A value that JSON cannot hold.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A value that CSV cannot hold.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] csv::Error),
    /// A page that cannot be filled.
    #[error("cannot write HTML: {0}")]
    Html(#[from] minijinja::Error),
    /// A bill of which nothing is drawn: no row of a mechanism has tolls.
    #[error(
        "nothing to draw as svg: no row of a mechanism has tolls; use --format html, or draw curves of several bills with \
         pagetoll report --over AXIS"
    )]
    NoPicture,
    /// A plot that cannot be drawn.
    #[error("cannot draw: {0}")]
    Plot(String),
    /// A flame graph that cannot be drawn.
    #[error(transparent)]
    FlameGraph(#[from] FlameGraphError),
}

fn names(kind: Kind) -> String {
    Format::for_kind(kind)
        .map(Format::name)
        .collect::<Vec<_>>()
        .join(", ")
}
