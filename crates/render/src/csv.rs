//! The rows of a bill as CSV: one line for each row, one column for each scalar.
//!
//! Columns, in this order: those of [`Scalars`] (the bill's `route`, `backend`, `unit` and `evidence`, then the row's by
//! their JSON names, `runs` separated by semicolons), and then, for every name that occurs in the bill in the order of
//! its first occurrence, `stack.NAME`, `folios.SIZE`, `crossings.NAME`, `tolls.NAME.count_per_page` and `.cost_each`,
//! `checks.NAME.tried`, `.failed`, `.control_failed` and `.verdict`. What a row does not have is empty; why it has no
//! figures is in `unavailable`. Notes and provenance are in the other formats.
//!
//! A cell that a spreadsheet would take for a formula begins with an apostrophe.

mod named;
mod scalars;

use pagetoll_bill::Bill;

use self::named::Names;
use self::scalars::Scalars;
use crate::harmless;

/// The rows as CSV, with a header line.
pub(crate) fn rows(bill: &Bill) -> csv::Result<String> {
    let names = Names::of(bill);
    let mut header = scalar_names()?;
    header.extend(names.header());
    let mut writer = unnamed();
    for row in &bill.rows {
        writer.serialize((Scalars::of(bill, row), names.cells(bill, row)))?;
    }
    let lines = bytes(writer)?;
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).from_reader(lines.as_slice());
    let mut writer = unnamed();
    writer.write_record(header.iter().map(|name| cell(name)))?;
    for record in reader.records() {
        writer.write_record(record?.iter().map(cell))?;
    }
    Ok(String::from_utf8_lossy(&bytes(writer)?).into_owned())
}

/// The names of the scalars, as serde has them.
fn scalar_names() -> csv::Result<Vec<String>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.serialize(Scalars::default())?;
    let text = bytes(writer)?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    Ok(reader.headers()?.iter().map(str::to_owned).collect())
}

fn unnamed() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(Vec::new())
}

fn bytes(writer: csv::Writer<Vec<u8>>) -> csv::Result<Vec<u8>> {
    writer
        .into_inner()
        .map_err(|error| error.into_error().into())
}

/// Text that neither a terminal nor a spreadsheet obeys.
fn cell(text: &str) -> String {
    let text = harmless(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_quoted_and_numbers_are_not() {
        let cells = [
            "=1+1", "+cmd|x", "-cmd", "@SUM(A1)", "-704.5", "+1e3", "6.1",
        ]
        .map(cell);
        let expected = [
            "'=1+1",
            "'+cmd|x",
            "'-cmd",
            "'@SUM(A1)",
            "-704.5",
            "+1e3",
            "6.1",
        ];
        assert_eq!(cells, expected);
        assert_eq!(cell("a\tb\u{202e}"), "a\u{fffd}b\u{fffd}");
    }
}
