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
        // Indented code needs no escapes, and without line breaks nothing can end it.
        Body::Lines(lines) => {
            let code = lines.iter().map(|line| format!("    {}\n", harmless(line)));
            code.collect()
        }
        Body::Bars(_) | Body::Plot(_) | Body::Calls(_) => String::new(),
    }
}

fn fact(Fact { name, value }: &Fact) -> String {
    bullet(&format!("{name}: {value}"))
}

fn bullet(text: &str) -> String {
    format!("- {}\n", escaped(text))
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

/// Stands for [`COMMENT`]: text that is harmless has no control character.
const JOINT: char = '\0';
/// Shows nothing, and parts what is around it.
const COMMENT: &str = "<!-- -->";

/// A bar would end a cell, and the other signs change how words look. Angle brackets and ampersands begin HTML, where a
/// backslash says nothing: in a summary too. What GitHub makes of whole words no escape prevents: they are parted.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in parted(&harmless(text)).chars() {
        match c {
            JOINT => safe += COMMENT,
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            _ if "\\|*_~`[]".contains(c) => safe.extend(['\\', c]),
            _ => safe.push(c),
        }
    }
    safe
}

/// The text with a [`JOINT`] in every word that GitHub makes a mention, a reference, an address or a link of
/// (docs.github.com: Autolinked references and URLs; github.github.com/gfm, section 6.9).
fn parted(text: &str) -> String {
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let text: String = words.map(commit).collect();
    let mut parted = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let (before, rest) = text.split_at(at);
        if is_joint(before, rest) {
            parted.push(JOINT);
        }
        parted.push(c);
    }
    parted
}

/// A word that may be a commit's name, of 7 to 40 hexadecimal digits, in parts that are too short for one.
fn commit(word: &str) -> String {
    let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_commit = (7..=40).contains(&name.len()) && name.chars().all(|c| c.is_ascii_hexdigit());
    let digits = word.char_indices().map(|(at, c)| {
        let joint = is_commit && at > 0 && at % 6 == 0 && at < name.len();
        joint.then_some(JOINT).into_iter().chain([c])
    });
    digits.flatten().collect()
}

/// `@name` and `x@y.z`, `#1`, `GH-1`, `://` and `www.`.
fn is_joint(before: &str, rest: &str) -> bool {
    let follows = |word: &str| {
        let start = before.len().checked_sub(word.len());
        let end = start.and_then(|start| before.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(word))
    };
    (before.ends_with(['@', '#']) && !rest.starts_with(' '))
        || (follows("gh-") && rest.starts_with(|c: char| c.is_ascii_digit()))
        || (follows(":") && rest.starts_with("//"))
        || (follows("www") && rest.starts_with('.'))
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
            "| a\\|b | n |\n| :--- | ---: |\n| x\\|\u{fffd}&lt;b&gt; | 1 |\n"
        );
    }

    #[test]
    fn nothing_becomes_a_mention_a_reference_a_link_or_an_entity() {
        let commit = "0123456789abcdef0123456789ABCDEF01234567";
        let parted = "012345|6789ab|cdef01|234567|89ABCD|EF0123|4567";
        let digest = "a".repeat(64);
        let cases = [
            ("by @octocat", "by @|octocat"),
            ("@org/team #12", "@|org/team #|12"),
            ("user/repo#12", "user/repo#|12"),
            ("GH-12 gh-1 (Gh-7)", "GH-|12 gh-|1 (Gh-|7)"),
            ("x@y.z x@_y.z x@-y.z", "x@|y.z x@|\\_y.z x@|-y.z"),
            ("http://a.b ftp://a", "http:|//a.b ftp:|//a"),
            ("WWW.a.b www.", "WWW|.a.b www|."),
            ("org/repo@a5c3785", "org/repo@|a5c378|5"),
            ("a5c3785...b5c3785, x", "a5c378|5...b5c378|5, x"),
            (commit, parted),
            ("&lt; &#64;x", "&amp;lt; &amp;#|64;x"),
            ("a@ 3.5 # / a5c378 defaced1g", "a@ 3.5 # / a5c378 defaced1g"),
            (&digest, &digest),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected.replace('|', COMMENT));
        }
    }

    #[test]
    fn a_summary_is_html_and_begins_no_tag() {
        let mut table = Table::new([Column::left("a")]);
        table.row(["b".to_owned()]);
        let folded = section(&Section::table("<img src=x>", table).folded());
        assert!(
            folded.contains("<summary>&lt;img src=x&gt;</summary>"),
            "{folded}"
        );
    }

    #[test]
    fn a_command_cannot_leave_its_block() {
        let lines = Section::lines("", vec!["a\n# b".into()]);
        assert_eq!(section(&lines), "    a\u{fffd}# b\n");
    }
}
