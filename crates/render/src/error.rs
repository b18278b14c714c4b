//! Errors of writing.

use thiserror::Error;

use crate::format::{Format, Kind};

/// Why nothing could be written.
#[derive(Debug, Error)]
pub enum RenderError {
    /// The format has no form for it.
    #[error("{kind} cannot be written as {format}; expected one of {}", names(*.kind))]
    NotWritten {
        /// What was to be written.
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
    /// Nothing of it is drawn.
    #[error("nothing of it is a picture; expected a bill with tolls, or curves")]
    NoPicture,
    /// A plot that cannot be drawn.
    #[error("cannot draw: {0}")]
    Plot(String),
}

fn names(kind: Kind) -> String {
    Format::of(kind)
        .map(Format::name)
        .collect::<Vec<_>>()
        .join(", ")
}
