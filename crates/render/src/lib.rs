//! A bill as text, JSON, CSV or Markdown.
//!
//! Everything here sees a [`Bill`] and nothing else: no backend, no clock, no terminal. A saved bill is therefore
//! printed byte for byte as its run printed it.

mod bill;
mod csv;
mod diff;
pub(crate) mod document;
mod figure;
mod markdown;
pub(crate) mod table;
pub(crate) mod text;

use anyhow::Result;
use pagetoll_bill::Bill;
use pagetoll_bill::diff::Diff;

use crate::args::Format;

/// How many of the rows a document shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// What fits a terminal: tolls at a middle and the largest batch, no digests, no QEMU command lines.
    Short,
    /// Everything.
    Full,
}

/// Two bills, compared, for a terminal.
pub(crate) fn diff_text(bills: (&Bill, &Bill), diff: &Diff) -> String {
    text::document(&diff::document(bills, diff))
}

/// Two bills, compared, as GitHub shows it.
pub(crate) fn diff_markdown(bills: (&Bill, &Bill), diff: &Diff) -> String {
    markdown::document(&diff::document(bills, diff))
}

/// The bill in one of its forms, with a newline at its end.
pub(crate) fn bill(bill: &Bill, format: Format) -> Result<String> {
    Ok(match format {
        Format::Text => text::document(&bill::document(bill, Detail::Short)),
        Format::Md => markdown::document(&bill::document(bill, Detail::Full)),
        Format::Csv => csv::rows(bill)?,
        Format::Json => serde_json::to_string_pretty(bill)? + "\n",
    })
}

#[cfg(test)]
mod tests;
