//! Subjects of output: results that have a document and a JSON form, written in any format of their kind.

use crate::document::Document;
use crate::error::RenderError;
use crate::format::{Format, Kind};
use crate::text::{self, Width};
use crate::{harmless, html, markdown, svg};

/// The amount that a document shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The part that fits a terminal: tolls at the smallest, a middle and the largest batch, no digests, no QEMU command lines.
    Short,
    /// All sections and columns.
    Full,
    /// All of them, what matters most first, and bars.
    Page,
}

/// Something that can be written in every format that its kind has.
pub(crate) trait Subject {
    const KIND: Kind;

    fn document(&self, detail: Detail) -> Document;

    fn json(&self) -> serde_json::Result<String>;

    /// Rows of scalars, where there are any.
    fn csv(&self) -> Result<String, RenderError> {
        Err(RenderError::NotWritten {
            kind: Self::KIND,
            format: Format::Csv,
        })
    }
}

/// Writes `subject`, with a newline at its end.
pub(crate) fn write(
    subject: &impl Subject,
    format: Format,
    width: Width,
) -> Result<String, RenderError> {
    Ok(match format {
        Format::Text => text::document(&subject.document(Detail::Short), width),
        Format::Json => harmless::escaped(&subject.json()?) + "\n",
        Format::Csv => subject.csv()?,
        Format::Md => markdown::document(&subject.document(Detail::Full)),
        Format::Html => html::document(&subject.document(Detail::Page))?,
        Format::Svg => svg::document(&subject.document(Detail::Page))?,
    })
}
