//! A document as GitHub Flavored Markdown (github.github.com/gfm, section 4.10 for tables).

use super::document::{Body, Document, Section};
use super::table::{Align, Table};
use crate::words::harmless;

/// The document as Markdown.
pub(super) fn document(document: &Document) -> String {
    let mut text = format!("# {}\n", escaped(&document.title));
    for part in document.sections.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text += &section(part);
    }
    text
}

fn section(section: &Section) -> String {
    let head = match section.title.as_str() {
        "" => String::new(),
        title => format!("## {}\n\n", escaped(title)),
    };
    head + &match &section.body {
        Body::Facts(facts) => facts.iter().map(fact).collect(),
        Body::Table(items) => table(items),
        Body::List(items) => items
            .iter()
            .map(|item| format!("- {}\n", escaped(item)))
            .collect(),
    }
}

fn fact((name, value): &(String, String)) -> String {
    format!("- {}: {}\n", escaped(name), escaped(value))
}

fn table(table: &Table) -> String {
    let titles: Vec<_> = table
        .columns
        .iter()
        .map(|column| escaped(&column.title))
        .collect();
    let rules: Vec<_> = table
        .columns
        .iter()
        .map(|column| match column.align {
            Align::Left => ":---".to_owned(),
            Align::Right => "---:".to_owned(),
        })
        .collect();
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| escaped(cell)).collect());
    let mut text: String = [titles, rules]
        .into_iter()
        .chain(rows)
        .map(|cells| line(&cells))
        .collect();
    if !table.footnotes.is_empty() {
        text.push('\n');
    }
    for note in &table.footnotes {
        text += &format!("- {}\n", escaped(note));
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A bar would end a cell, an angle bracket begin HTML, and the rest change how words look.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        if "\\|<>*_`[]".contains(c) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cannot_break_the_table() {
        let mut items = Table::new([("a|b", Align::Left), ("n", Align::Right)]);
        items.row(["x|\n<b>".to_owned(), "1".to_owned()]);
        assert_eq!(
            table(&items),
            "| a\\|b | n |\n| :--- | ---: |\n| x\\|\u{fffd}\\<b\\> | 1 |\n"
        );
    }
}
