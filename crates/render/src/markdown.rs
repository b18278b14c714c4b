//! A document as GitHub Flavored Markdown (github.github.com/gfm, section 4.10 for tables, 4.4 for lines of code).

use crate::document::{Body, Document, Fact, Section};
use crate::harmless;
use crate::table::{Align, Table};

/// The document as Markdown.
#[must_use]
pub fn document(document: &Document) -> String {
    let mut text = format!("# {}\n", escaped(&document.title));
    for part in document.sections.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text += &section(part);
    }
    text
}

fn section(section: &Section) -> String {
    let (head, end) = match section.title.as_str() {
        "" => (String::new(), ""),
        title if section.folded => (
            format!("<details><summary>{}</summary>\n\n", escaped(title)),
            "\n</details>\n",
        ),
        title => (format!("## {}\n\n", escaped(title)), ""),
    };
    head + &body(section) + end
}

fn body(section: &Section) -> String {
    match &section.body {
        Body::Facts(facts) => facts.iter().map(fact).collect(),
        Body::Table(items) => table(items),
        Body::List(items) => items.iter().map(|item| bullet(item)).collect(),
        Body::Lines(lines) => lines.iter().map(|line| code(line)).collect(),
        Body::Bars(_) | Body::Plot(_) | Body::Calls(_) => String::new(),
    }
}

fn fact(Fact { name, value }: &Fact) -> String {
    bullet(&format!("{name}: {value}"))
}

fn bullet(text: &str) -> String {
    format!("- {}\n", escaped(text))
}

/// Indented code needs no escapes, and without line breaks nothing can end it.
fn code(line: &str) -> String {
    format!("    {}\n", harmless(line))
}

fn table(table: &Table) -> String {
    let columns = || table.columns.iter();
    let titles = columns().map(|column| escaped(&column.title)).collect();
    let rule = |align| match align {
        Align::Left => ":---".to_owned(),
        Align::Right => "---:".to_owned(),
    };
    let rules = columns().map(|column| rule(column.align)).collect();
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| escaped(cell)).collect());
    let lines = [titles, rules].into_iter().chain(rows);
    let mut text: String = lines.map(|cells: Vec<_>| line(&cells)).collect();
    if !table.footnotes.is_empty() {
        text.push('\n');
    }
    text + &table
        .footnotes
        .iter()
        .map(|note| bullet(note))
        .collect::<String>()
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A bar would end a cell, an angle bracket begin HTML, an ampersand an entity, `://` and `www.` a link, and the rest
/// change how words look. What GitHub makes of `@name` and `#1` no escape prevents, because it looks at words after
/// that: an empty comment parts the sign from the word.
fn escaped(text: &str) -> String {
    let text = harmless(text);
    let mut safe = String::with_capacity(text.len());
    let mut before = "";
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let links = (c == '/' && before.ends_with(':')) || (c == '.' && is_www(before));
        if "\\|<>*_`[]&".contains(c) || links {
            safe.push('\\');
        }
        safe.push(c);
        if "@#".contains(c) && rest.starts_with(char::is_alphanumeric) {
            safe += "<!-- -->";
        }
        before = &text[..at + c.len_utf8()];
    }
    safe
}

fn is_www(before: &str) -> bool {
    let from = before
        .len()
        .checked_sub(3)
        .and_then(|start| before.get(start..));
    from.is_some_and(|end| end.eq_ignore_ascii_case("www"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn cells_cannot_break_the_table() {
        let mut items = Table::new([Column::left("a|b"), Column::right("n")]);
        items.row(["x|\n<b>".to_owned(), "1".to_owned()]);
        assert_eq!(
            table(&items),
            "| a\\|b | n |\n| :--- | ---: |\n| x\\|\u{fffd}\\<b\\> | 1 |\n"
        );
    }

    #[test]
    fn nothing_becomes_a_mention_a_link_or_an_entity() {
        assert_eq!(
            escaped("by @octocat, #12"),
            "by @<!-- -->octocat, #<!-- -->12"
        );
        assert_eq!(escaped("http://a.b &lt;"), "http:\\//a.b \\&lt;");
        assert_eq!(escaped("WWW.a.b x@y.z"), "WWW\\.a.b x@<!-- -->y.z");
        assert_eq!(escaped("a@ 3.5 # /"), "a@ 3.5 # /");
    }

    #[test]
    fn a_command_cannot_leave_its_block() {
        let lines = Section::lines("", vec!["a\n# b".into()]);
        assert_eq!(section(&lines), "    a\u{fffd}# b\n");
    }
}
