//! Golden texts of sample bills and comparisons, and what holds for every form of every sample.

mod curves;
mod diff;
mod forms;
mod hostile;
mod samples;
mod tables;

use pagetoll_bill::{Figures, Row, RowKey};
use quick_xml::events::Event;

use crate::html::{SCRIPT, STYLE};

/// Compares with a file of `tests/data`, which names the style and the script of a page instead of repeating them;
/// `UPDATE_EXPECT=1` writes it.
fn golden(name: &str, text: &str) {
    let text = text.replace(STYLE, "/* page.css */\n");
    let text = text.replace(SCRIPT, "/* page.js */\n");
    expect_test::expect_file![format!("../tests/data/{name}")].assert_eq(&text);
}

/// A row of the sample with another key and other figures.
pub(crate) fn row(key: RowKey, figures: Figures) -> Row {
    let first = samples::sample().rows.swap_remove(0);
    Row {
        key,
        result: Ok(figures),
        ..first
    }
}

/// Reads a document of XML to its end.
pub(crate) fn well_formed(xml: &str) {
    let mut reader = quick_xml::Reader::from_str(xml);
    while reader
        .read_event()
        .unwrap_or_else(|error| panic!("{error}: {xml}"))
        != Event::Eof
    {}
}
