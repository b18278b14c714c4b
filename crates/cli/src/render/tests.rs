//! Golden texts of one sample bill, in every form.

use expect_test::expect_file;

use super::*;

const SAMPLE: &str = include_str!("../../tests/data/sample-bill.json");

fn sample() -> Bill {
    serde_json::from_str(SAMPLE).unwrap()
}

fn rendered(format: Format) -> String {
    bill(&sample(), format).unwrap()
}

#[test]
fn text() {
    expect_file!["../../tests/data/sample-bill.txt"].assert_eq(&rendered(Format::Text));
}

#[test]
fn markdown() {
    expect_file!["../../tests/data/sample-bill.md"].assert_eq(&rendered(Format::Md));
}

#[test]
fn csv() {
    expect_file!["../../tests/data/sample-bill.csv"].assert_eq(&rendered(Format::Csv));
}

#[test]
fn json_gives_back_the_very_bytes() {
    assert_eq!(rendered(Format::Json), SAMPLE);
}

#[test]
fn no_cell_is_empty() {
    for detail in [Detail::Short, Detail::Full] {
        for section in bill::document(&sample(), detail).sections {
            if let document::Body::Table(table) = section.body {
                let cells: Vec<_> = table.rows.iter().flatten().collect();
                assert!(
                    cells.iter().all(|cell| !cell.is_empty()),
                    "{}",
                    section.title
                );
                let width = table.columns.len();
                assert!(table.rows.iter().all(|row| row.len() == width));
            }
        }
    }
}

#[test]
fn a_single_run_has_no_deviation_and_a_bill_without_rows_is_still_told() {
    let mut single = sample();
    for row in &mut single.rows {
        row.stddev = None;
    }
    assert!(!super::bill(&single, Format::Text).unwrap().contains("+-"));
    single.rows.clear();
    for format in [Format::Text, Format::Md, Format::Csv, Format::Json] {
        let text = super::bill(&single, format).unwrap();
        assert!(text.contains("unmap") || format == Format::Csv, "{text}");
    }
}

#[test]
fn every_line_of_the_csv_has_a_cell_for_each_column() {
    let text = rendered(Format::Csv);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len(), sample().rows.len());
}
