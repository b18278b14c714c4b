//! A document for a terminal: plain characters, no colours, and no line wider than the terminal but commands.

mod fit;
mod paint;
mod wrap;

use comfy_table::{Cell, CellAlignment, ContentArrangement, TableComponent};

pub use self::paint::painted;

use self::fit::Fit;
use self::wrap::wrap;
use crate::document::{Body, Document, Fact, Section};
use crate::harmless;
use crate::table::{Align, Table};

/// The width of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The width of the content: a file, a pipe.
    Unlimited,
    /// So many columns of a terminal.
    Columns(u16),
}

impl Width {
    fn columns(self) -> usize {
        match self {
            Self::Unlimited => usize::MAX,
            Self::Columns(columns) => usize::from(columns),
        }
    }
}

/// Lines below a title.
const INDENT: usize = 2;

/// The document as text.
#[must_use]
pub fn document(document: &Document, width: Width) -> String {
    let mut text = paragraph(&document.title, 0, 0, width);
    for part in document.sections.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text += &section(part, width);
    }
    text
}

fn section(section: &Section, width: Width) -> String {
    let head = match section.title.as_str() {
        "" => String::new(),
        title => paragraph(title, 0, 0, width),
    };
    let item = |text: &String| paragraph(text, INDENT, INDENT, width);
    head + &match &section.body {
        Body::Facts(items) => facts(items, width),
        Body::Table(items) => table(items, width),
        Body::List(items) => items.iter().map(item).collect(),
        Body::Lines(lines) => lines
            .iter()
            .map(|line| paragraph(line, INDENT, INDENT, Width::Unlimited))
            .collect(),
        Body::Bars(_) | Body::Plot(_) | Body::Calls(_) => String::new(),
    }
}

/// Lines of `text`, the first behind `first` spaces and the others behind `rest`.
fn paragraph(text: &str, first: usize, rest: usize, width: Width) -> String {
    let room = width.columns().saturating_sub(first.max(rest));
    let lines = wrap(&harmless(text), room);
    let mut indent = first;
    lines
        .iter()
        .map(|line| format!("{:1$}{line}\n", "", std::mem::replace(&mut indent, rest)))
        .collect()
}

fn facts(facts: &[Fact], width: Width) -> String {
    let longest = facts.iter().map(|fact| fact.name.chars().count()).max();
    let names = longest.unwrap_or_default();
    let line = |Fact { name, value }: &Fact| {
        let rest = INDENT + names + 2;
        let text = paragraph(value, rest, rest, width);
        format!("  {:<names$}  {}", harmless(name), &text[rest..])
    };
    facts.iter().map(line).collect()
}

fn table(table: &Table, width: Width) -> String {
    let fit = Fit::new(table, width.columns());
    let mut drawn = comfy_table::Table::new();
    drawn
        .load_preset(comfy_table::presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '-')
        .set_style(TableComponent::MiddleHeaderIntersections, '-')
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(cells(table, &fit, |index| &table.columns[index].title));
    for row in &table.rows {
        drawn.add_row(cells(table, &fit, |index| &row[index]));
    }
    let lines = drawn.to_string();
    let lines = lines.lines().map(|line| format!(" {}\n", line.trim_end()));
    let notes = table.footnotes.iter().chain(&fit.left_out);
    lines
        .chain(notes.map(|note| paragraph(note, INDENT, INDENT, width)))
        .collect()
}

fn cells<'a>(table: &Table, fit: &Fit, text: impl Fn(usize) -> &'a String) -> Vec<Cell> {
    let shown = fit.columns.iter();
    shown
        .map(|column| {
            let lines = wrap(&harmless(text(column.index)), column.width);
            Cell::new(lines.join("\n")).set_alignment(match table.columns[column.index].align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn control_characters_of_a_file_do_not_reach_the_terminal() {
        let mut table = Table::new([Column::left("a\u{1b}")]);
        table.row(["b\u{7}".to_owned()]);
        let sections = vec![
            Section::table("x\n", table),
            Section::list("", vec!["\r\u{202e}".into()]),
            Section::facts("", vec![Fact::new("\u{9b}", "\u{8}")]),
            Section::lines("", vec!["\u{1b}c".into()]),
        ];
        let title = "t\u{1b}[2J".into();
        let drawn = document(&Document { title, sections }, Width::Unlimited);
        let commands = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!drawn.chars().any(commands), "{drawn:?}");
    }

    #[test]
    fn facts_hang_below_their_value() {
        let section = Section::facts("", vec![Fact::new("stack", "linux 6.1, xen 4.17")]);
        let drawn = super::section(&section, Width::Columns(22));
        assert_eq!(drawn, "  stack  linux 6.1,\n         xen 4.17\n");
    }

    #[test]
    fn a_command_is_never_wrapped() {
        let lines = Section::lines("", vec!["pagetoll bill unmap".into()]);
        assert_eq!(
            super::section(&lines, Width::Columns(10)),
            "  pagetoll bill unmap\n"
        );
    }
}
