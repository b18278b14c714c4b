//! A document as one self-contained page: no request, no file beside it; all content is there without scripts, which only sort
//! tables. The page's own policy forbids everything else, so that the browser proves it.

use minijinja::{AutoEscape, Environment, context};
use pagetoll_bill::profile;
use serde::Serialize;

use crate::document::{Bars, Body, Calls, Document, Fact, Length, Section};
use crate::error::RenderError;
use crate::picture::bars::{self, Drawn};
use crate::picture::palette;
use crate::picture::plot::{self, Drawing};
use crate::table::{Align, Column, Table};
use crate::{flamegraph, harmless};

/// Letters up to which a cell is one line.
const LINE: usize = 40;
const PAGE: &str = include_str!("html/page.html");
pub(crate) const STYLE: &str = include_str!("html/page.css");
pub(crate) const SCRIPT: &str = include_str!("html/page.js");
/// The hash of [`SCRIPT`], which alone may run: a test compares it.
const SCRIPT_HASH: &str = include_str!("html/page.js.sha256");

/// The document as HTML.
///
/// # Errors
/// A template that cannot be filled.
pub fn document(document: &Document) -> Result<String, RenderError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page", PAGE)?;
    let parts = document.sections.iter().filter(|part| !part.is_empty());
    let page = environment.get_template("page")?.render(context! {
        title => harmless(&document.title),
        style => minijinja::Value::from_safe_string(STYLE.to_owned() + &palette::style() + "\n"),
        script => minijinja::Value::from_safe_string(SCRIPT.to_owned()),
        script_hash => SCRIPT_HASH.trim(),
        colours => palette::COLOURS.len(),
        parts => parts.map(part).collect::<Result<Vec<_>, _>>()?,
    })?;
    Ok(page + "\n")
}

/// A section, as the template wants it.
#[derive(Default, Serialize)]
struct Part {
    title: String,
    facts: Vec<Named>,
    list: Vec<String>,
    lines: Vec<String>,
    bars: Option<Chart>,
    plot: Option<Drawing>,
    calls: Option<Flames>,
    table: Option<Grid>,
    folded: bool,
}

#[derive(Serialize)]
struct Named {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct Grid {
    columns: Vec<Head>,
    rows: Vec<Vec<String>>,
    footnotes: Vec<String>,
}

#[derive(Serialize)]
struct Head {
    title: String,
    number: bool,
    /// Cells may be broken into lines.
    wraps: bool,
}

/// A flame graph.
#[derive(Serialize)]
struct Flames {
    svg: String,
    parts: Vec<Legend>,
}

#[derive(Serialize)]
struct Legend {
    name: &'static str,
    colour: usize,
}

#[derive(Serialize)]
struct Chart {
    unit: String,
    parts: Vec<String>,
    /// There is a line in the middle.
    signed: bool,
    /// There is an error bar.
    errors: bool,
    rows: Vec<Drawn>,
}

fn part(section: &Section) -> Result<Part, RenderError> {
    let title = harmless(&section.title);
    let part = Part {
        title,
        folded: section.folded,
        ..Part::default()
    };
    Ok(match &section.body {
        Body::Facts(facts) => Part {
            facts: facts.iter().map(named).collect(),
            ..part
        },
        Body::Table(table) => Part {
            table: Some(grid(table)),
            ..part
        },
        Body::List(items) => Part {
            list: safe(items),
            ..part
        },
        Body::Lines(lines) => Part {
            lines: safe(lines),
            ..part
        },
        Body::Bars(bars) => Part {
            bars: Some(chart(bars)),
            ..part
        },
        Body::Plot(plot) => Part {
            plot: Some(plot::draw(plot)?),
            ..part
        },
        Body::Calls(calls) => Part {
            calls: Some(flames(calls)?),
            ..part
        },
    })
}

fn safe(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| harmless(text)).collect()
}

fn named(Fact { name, value }: &Fact) -> Named {
    Named {
        name: harmless(name),
        value: harmless(value),
    }
}

fn grid(table: &Table) -> Grid {
    let is_long = |index: usize| {
        let mut cells = table.rows.iter().map(|row| row[index].chars().count());
        cells.any(|letters| letters > LINE)
    };
    let head = |(index, column): (usize, &Column)| Head {
        title: harmless(&column.title),
        number: column.align == Align::Right,
        wraps: column.wraps && is_long(index),
    };
    Grid {
        columns: table.columns.iter().enumerate().map(head).collect(),
        rows: table.rows.iter().map(|row| safe(row)).collect(),
        footnotes: safe(&table.footnotes),
    }
}

fn flames(calls: &Calls) -> Result<Flames, RenderError> {
    let is_there = |part: &&profile::Part| calls.functions.iter().any(|call| call.part == **part);
    let parts = profile::Part::ALL
        .iter()
        .filter(is_there)
        .map(|part| Legend {
            name: part.name(),
            colour: flamegraph::part_colour(*part),
        });
    Ok(Flames {
        svg: flamegraph::inline(calls)?,
        parts: parts.collect(),
    })
}

fn chart(bars: &Bars) -> Chart {
    let rows = bars::drawn(bars);
    Chart {
        unit: harmless(&bars.unit),
        parts: safe(&bars.parts),
        signed: bars.length == Length::Signed,
        errors: rows.iter().any(|bar| bar.error.is_some()),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Bar;

    const HOSTILE: &str = "<script>alert(1)</script>\"'&{{ title }}\u{202e}\n";

    fn page(sections: Vec<Section>) -> String {
        let title = HOSTILE.to_owned();
        document(&Document { title, sections }).unwrap()
    }

    #[test]
    fn nothing_that_a_bill_holds_becomes_markup() {
        let text = || HOSTILE.to_owned();
        let mut table = Table::new([Column::left(HOSTILE)]);
        table.row([text()]);
        table.footnote(HOSTILE);
        let bars = Bars {
            unit: text(),
            parts: vec![text()],
            length: Length::Amount,
            rows: vec![Bar {
                label: text(),
                sum: text(),
                amounts: vec![1.0],
                error: None,
            }],
        };
        let page = page(vec![
            Section::facts(HOSTILE, vec![Fact::new(HOSTILE, HOSTILE)]),
            Section::table(HOSTILE, table),
            Section::list(HOSTILE, vec![text()]),
            Section::lines(HOSTILE, vec![text()]),
            Section::bars(HOSTILE, bars),
        ]);
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains("alert(1)</script>") && !page.contains('\u{202e}'));
        assert!(page.contains("{{ title }}"));
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn nothing_is_requested_and_one_script_runs() {
        let page = page(Vec::new());
        assert!(page.contains("default-src 'none'"));
        for request in ["http://", "https://", "url(", "@import", "src=", "href="] {
            assert!(!page.contains(request), "{request}");
        }
        assert!(SCRIPT.len() < 3000 && !SCRIPT.contains("</script"));
        let digest = {
            use sha2::Digest as _;
            sha2::Sha256::digest(SCRIPT)
        };
        assert_eq!(SCRIPT_HASH.trim(), format!("sha256-{}", base64(&digest)));
    }

    /// RFC 4648.
    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let group = chunk
                .iter()
                .fold(0, |group, byte| group << 8 | u32::from(*byte));
            let group = group << (8 * (3 - chunk.len()));
            for index in 0..4 {
                let digit = (group >> (18 - 6 * index) & 0x3f) as usize;
                text.push(if index <= chunk.len() {
                    char::from(DIGITS[digit])
                } else {
                    '='
                });
            }
        }
        text
    }
}
