//! A document as one self-contained page: no request, no file beside it; all content is there without scripts, which only sort
//! tables. The page's own policy forbids everything else, so that the browser proves it.

mod calls;
pub(crate) mod plot;

use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use crate::document::{Bar, Bars, Body, Document, Fact, Section};
use crate::table::{Align, Table};
use crate::{RenderError, figure, harmless};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// Of [`SCRIPT`], which alone may run: a test compares it.
const SCRIPT_HASH: &str = include_str!("html/page.js.sha256");
/// As wide as the longest bar.
const WIDTH: f64 = 1000.0;
/// In the style sheet; more parts repeat them.
pub(crate) const COLOURS: usize = 8;

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
        style => minijinja::Value::from_safe_string(STYLE.to_owned()),
        script => minijinja::Value::from_safe_string(SCRIPT.to_owned()),
        script_hash => SCRIPT_HASH.trim(),
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
    plot: Option<plot::Drawing>,
    calls: Option<calls::Boxes>,
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
}

#[derive(Serialize)]
struct Chart {
    unit: String,
    parts: Vec<String>,
    rows: Vec<Drawn>,
}

#[derive(Serialize)]
pub(crate) struct Drawn {
    pub(crate) label: String,
    /// For those who do not see it.
    described: String,
    pub(crate) sum: String,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Serialize)]
pub(crate) struct Piece {
    x: String,
    width: String,
    colour: usize,
    title: String,
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
        Body::Calls(frames) => Part {
            calls: Some(calls::boxes(frames)),
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
    let head = |column: &crate::table::Column| Head {
        title: harmless(&column.title),
        number: column.align == Align::Right,
    };
    Grid {
        columns: table.columns.iter().map(head).collect(),
        rows: table.rows.iter().map(|row| safe(row)).collect(),
        footnotes: safe(&table.footnotes),
    }
}

/// The bars on one scale, [`WIDTH`] wide. A bar is as long as its pieces, which are those amounts that are positive.
pub(crate) fn drawn(bars: &Bars) -> Vec<Drawn> {
    let sum = |amounts: &[f64]| amounts.iter().sum::<f64>();
    let length = |bar: &Bar| {
        bar.amounts
            .iter()
            .map(|amount| amount.max(0.0))
            .sum::<f64>()
    };
    let longest = bars.rows.iter().map(length);
    let scale = WIDTH / longest.fold(f64::MIN_POSITIVE, f64::max);
    let rows = bars.rows.iter().map(|bar| {
        let named = bars.parts.iter().zip(&bar.amounts);
        let said: Vec<_> = named
            .filter(|(_, amount)| **amount > 0.0)
            .map(|(name, amount)| format!("{} {}", harmless(name), figure::cost(*amount)))
            .collect();
        let label = harmless(&bar.label);
        Drawn {
            described: format!("{label}: {}", said.join(", ")),
            label,
            sum: figure::cost(sum(&bar.amounts)),
            pieces: pieces(&bars.parts, &bar.amounts, scale),
        }
    });
    rows.collect()
}

fn chart(bars: &Bars) -> Chart {
    Chart {
        unit: harmless(&bars.unit),
        parts: safe(&bars.parts),
        rows: drawn(bars),
    }
}

/// The style of parts, by their number.
pub(crate) fn colours() -> &'static str {
    let mut lines = STYLE.lines();
    lines
        .find(|line| line.starts_with(".c0"))
        .unwrap_or_default()
}

/// What is no positive amount has no piece.
fn pieces(names: &[String], amounts: &[f64], scale: f64) -> Vec<Piece> {
    let mut x = 0.0;
    let mut pieces = Vec::new();
    for (index, (name, amount)) in names.iter().zip(amounts).enumerate() {
        let width = amount.max(0.0) * scale;
        if width > 0.0 {
            pieces.push(Piece {
                x: format!("{x:.2}"),
                width: format!("{width:.2}"),
                colour: index % COLOURS,
                title: format!("{}: {}", harmless(name), figure::cost(*amount)),
            });
        }
        x += width;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

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
            rows: vec![Bar {
                label: text(),
                amounts: vec![1.0],
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
    fn what_is_no_number_is_drawn_as_nothing() {
        let amounts = vec![f64::NAN, -1.0, 0.0, 3.0];
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let drawn = pieces(&names, &amounts, 10.0);
        let titles: Vec<_> = drawn.iter().map(|piece| piece.title.as_str()).collect();
        assert_eq!(titles, ["d: 3.0"]);
        assert_eq!(
            (drawn[0].x.as_str(), drawn[0].width.as_str()),
            ("0.00", "30.00")
        );
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
