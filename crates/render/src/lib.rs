//! Bills, comparisons and other lists as text, JSON, CSV, Markdown or HTML.
//!
//! Sees plain data and nothing else: no backend (cargo enforces it), no clock, no terminal. A saved bill is therefore
//! printed byte for byte as its run printed it. What a document shows follows from what a bill holds; where it was
//! made is printed and decides nothing.

#![forbid(unsafe_code)]

mod bill;
mod csv;
mod curves;
mod diff;
pub mod document;
mod error;
mod figure;
pub mod flamegraph;
mod format;
mod harmless;
pub mod html;
pub mod markdown;
mod picture;
mod setting;
mod subject;
mod subset;
mod svg;
pub mod table;
#[cfg(test)]
mod tests;
pub mod text;
mod unique;

use pagetoll_bill::Bill;
use pagetoll_compare::curves::Curves;
use pagetoll_compare::diff::{Diff, MissingRows};
use serde::Serialize;

pub use error::RenderError;
pub use format::{Format, Kind, UnknownExtension};
pub use harmless::harmless;
pub use text::Width;

use document::Document;
use subject::{Detail, Subject, write};

/// A bill. `width` is for text alone.
///
/// # Errors
/// A value that the format cannot hold.
pub fn bill(bill: &Bill, format: Format, width: Width) -> Result<String, RenderError> {
    write(bill, format, width)
}

/// Two bills, compared. Rows and figures that are missing fail the gate unless `missing` allows them.
///
/// # Errors
/// A format that diffs do not have.
pub fn diff(
    old: &Bill,
    new: &Bill,
    diff: &Diff,
    missing: MissingRows,
    format: Format,
    width: Width,
) -> Result<String, RenderError> {
    let compared = diff::Compared {
        old,
        new,
        diff,
        missing,
    };
    write(&compared, format, width)
}

/// Several bills over an axis.
///
/// # Errors
/// A format that curves do not have.
pub fn curves(curves: &Curves, format: Format, width: Width) -> Result<String, RenderError> {
    write(curves, format, width)
}

/// A list: `data` in JSON, `document` otherwise.
///
/// # Errors
/// A format that lists do not have; data that JSON cannot hold.
pub fn list(
    document: Document,
    data: &impl Serialize,
    format: Format,
    width: Width,
) -> Result<String, RenderError> {
    write(&List { document, data }, format, width)
}

impl Subject for Bill {
    const KIND: Kind = Kind::Bill;

    fn document(&self, detail: Detail) -> Document {
        bill::document(self, detail)
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    fn csv(&self) -> Result<String, RenderError> {
        csv::rows(self)
    }
}

struct List<'a, T> {
    document: Document,
    data: &'a T,
}

impl<T: Serialize> Subject for List<'_, T> {
    const KIND: Kind = Kind::List;

    fn document(&self, _: Detail) -> Document {
        self.document.clone()
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self.data)
    }
}
