//! A document for a terminal: plain characters, no colours, the same width wherever it goes.

use comfy_table::{Cell, CellAlignment, ContentArrangement, TableComponent};

use super::document::{Body, Document, Section};
use super::table::{Align, Table};
use crate::words::harmless;

/// The document as text.
pub(crate) fn document(document: &Document) -> String {
    let mut text = harmless(&document.title) + "\n";
    for part in document.sections.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text += &section(part);
    }
    text
}

fn section(section: &Section) -> String {
    let head = match section.title.as_str() {
        "" => String::new(),
        title => harmless(title) + "\n",
    };
    head + &match &section.body {
        Body::Facts(items) => facts(items),
        Body::Table(items) => table(items),
        Body::List(items) => items.iter().map(|item| indented(item)).collect(),
    }
}

fn indented(line: &str) -> String {
    format!("  {}\n", harmless(line))
}

fn facts(facts: &[(String, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    facts
        .iter()
        .map(|(name, value)| indented(&format!("{name:<width$}  {value}")))
        .collect()
}

fn table(table: &Table) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn
        .load_preset(comfy_table::presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '-')
        .set_style(TableComponent::MiddleHeaderIntersections, '-')
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(table.columns.iter().map(|c| cell(&c.title, c.align)));
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        drawn.add_row(cells.map(|(text, column)| cell(text, column.align)));
    }
    let mut text = String::new();
    for line in drawn.to_string().lines() {
        text += &format!(" {}\n", line.trim_end());
    }
    text + &table
        .footnotes
        .iter()
        .map(|note| indented(note))
        .collect::<String>()
}

fn cell(text: &str, align: Align) -> Cell {
    Cell::new(harmless(text)).set_alignment(match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_do_not_reach_the_terminal() {
        let mut table = Table::new([("a\u{1b}", Align::Left)]);
        table.row(["b\u{7}".to_owned()]);
        let drawn = document(&Document {
            title: "t\u{1b}[2J".into(),
            sections: vec![
                Section::table("x\n", table),
                Section::list("", vec!["\r".into()]),
            ],
        });
        assert!(
            !drawn.chars().any(|c| c.is_control() && c != '\n'),
            "{drawn:?}"
        );
    }
}
