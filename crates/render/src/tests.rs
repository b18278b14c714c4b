//! Golden texts of sample bills and comparisons, and what holds for every form of every sample.

mod diff;
mod forms;
mod hostile;
mod samples;
mod tables;

use quick_xml::events::Event;

/// Compares with a file of `tests/data`; `UPDATE_EXPECT=1` writes it.
fn golden(name: &str, text: &str) {
    expect_test::expect_file![format!("../tests/data/{name}")].assert_eq(text);
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
