//! Every table, whatever the width.

use proptest::prelude::*;

use super::samples;
use crate::bill;
use crate::document::{Body, Document};
use crate::subject::Detail;
use crate::{Format, Width, text};

#[test]
fn no_cell_is_empty_and_every_row_is_complete() {
    for sample in samples::all() {
        for detail in [Detail::Short, Detail::Full] {
            for section in bill::document(&sample, detail).sections {
                let Body::Table(table) = section.body else {
                    continue;
                };
                let mut cells = table.rows.iter().flatten();
                assert!(cells.all(|cell| !cell.is_empty()), "{}", section.title);
                let width = table.columns.len();
                assert!(table.rows.iter().all(|row| row.len() == width));
            }
        }
    }
}

#[test]
fn no_figure_is_minus_zero() {
    for sample in samples::all() {
        let text = crate::bill(&sample, Format::Md, Width::Unlimited).unwrap();
        for zero in ["-0.0 ", "-0.00 ", "-0.0000 ", "-0 "] {
            assert!(!text.contains(zero), "{zero} in {}: {text}", sample.route);
        }
    }
}

/// Lines but commands.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("  pagetoll "))
}

#[test]
fn every_table_of_every_sample_fits_60_columns() {
    for sample in samples::all() {
        let text = crate::bill(&sample, Format::Text, Width::Columns(60)).unwrap();
        let wide = lines(&text).find(|line| line.chars().count() > 60);
        assert_eq!(wide, None, "{text}");
    }
}

proptest! {
    /// Nothing is wider than the terminal.
    #[test]
    fn every_line_fits(width in 40..200u16, index in 0..10usize) {
        let sample = &samples::all()[index];
        let text = crate::bill(sample, Format::Text, Width::Columns(width)).unwrap();
        for line in lines(&text) {
            prop_assert!(line.chars().count() <= usize::from(width), "{}", line);
        }
    }

    /// A column that is not drawn is named below the table.
    #[test]
    fn every_column_is_drawn_or_named(width in 60..200u16, index in 0..10usize) {
        for section in bill::document(&samples::all()[index], Detail::Short).sections {
            let Body::Table(table) = &section.body else {
                continue;
            };
            let titles: Vec<_> = table.columns.iter().map(|column| column.title.clone()).collect();
            if section.is_empty() {
                continue;
            }
            let alone = Document { title: String::new(), sections: vec![section] };
            let text = text::document(&alone, Width::Columns(width));
            for word in titles.iter().flat_map(|title| title.split(' ')) {
                prop_assert!(text.contains(word), "{} is not in {}", word, text);
            }
        }
    }
}
