//! The pictures of a document, one below the other, as SVG for other documents: with a background, and nothing to be fetched.

use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use crate::document::{Body, Document, Section};
use crate::error::RenderError;
use crate::harmless;
use crate::picture::bars::{self, ErrorBar, Piece};
use crate::picture::palette::{self, COLOURS};
use crate::picture::plot;

const PICTURE: &str = include_str!("svg/picture.svg");
/// In pixels.
const WIDTH: u32 = 900;
const MARGIN: u32 = 12;
const TITLE: u32 = 34;
const LEGEND: u32 = 20;
const BAR: u32 = 24;
/// The width of a glyph, about.
const LETTER: u32 = 7;
/// The width of a swatch and its padding.
const BOX: u32 = 40;

/// The document's bars and plots.
///
/// # Errors
/// A document without any; what cannot be drawn.
pub(crate) fn document(document: &Document) -> Result<String, RenderError> {
    let mut height = 0;
    let mut parts = Vec::new();
    for section in document.sections.iter().filter(|part| !part.is_empty()) {
        if let Some(part) = part(section, height)? {
            height = part.y + part.height;
            parts.push(part);
        }
    }
    if parts.is_empty() {
        return Err(RenderError::NoPicture);
    }
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let picture = environment.render_named_str(
        "picture.svg",
        PICTURE,
        context! {
            title => harmless(&document.title),
            colours => Value::from_safe_string(palette::style()),
            height => height + MARGIN,
            parts => parts,
        },
    )?;
    Ok(picture + "\n")
}

/// A section's picture, as the template wants it; places are below its own top.
#[derive(Serialize)]
struct Part {
    y: u32,
    height: u32,
    title: String,
    legend: Vec<Entry>,
    /// Below the legend.
    top: u32,
    bars: Vec<Bar>,
    plot: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    x: u32,
    y: u32,
    name: String,
    colour: usize,
}

#[derive(Serialize)]
struct Bar {
    y: u32,
    label: String,
    sum: String,
    pieces: Vec<Piece>,
    error: Option<ErrorBar>,
}

impl Part {
    /// A title and a legend, and nothing below them yet.
    fn new(y: u32, title: String, names: &[String]) -> Self {
        let legend = legend(names);
        let top = below(&legend);
        Self {
            y,
            height: top,
            title,
            legend,
            top,
            bars: Vec::new(),
            plot: None,
        }
    }
}

fn part(section: &Section, y: u32) -> Result<Option<Part>, RenderError> {
    let title = harmless(&section.title);
    let part = match &section.body {
        Body::Bars(bars) => {
            let title = format!("{title}, {}", harmless(&bars.unit));
            let mut part = Part::new(y, title, &bars.parts);
            for row in bars::drawn(bars) {
                part.bars.push(Bar {
                    y: part.height,
                    label: row.label,
                    sum: row.sum,
                    pieces: row.pieces,
                    error: row.error,
                });
                part.height += BAR;
            }
            part
        }
        Body::Plot(plot) => {
            let names: Vec<_> = plot.lines.iter().map(|line| line.label.clone()).collect();
            let mut part = Part::new(y, title, &names);
            part.plot = Some(plot::draw(plot)?.alone());
            part.height += plot::SIZE.1;
            part
        }
        _ => return Ok(None),
    };
    Ok(Some(part))
}

/// Entries side by side, in as many lines as they take.
fn legend(names: &[String]) -> Vec<Entry> {
    let (mut x, mut y) = (MARGIN, TITLE);
    let entry = |(index, name): (usize, &String)| {
        let name = harmless(name);
        let letters = u32::try_from(name.chars().count()).unwrap_or(WIDTH);
        let width = letters.saturating_mul(LETTER).saturating_add(BOX);
        if x > MARGIN && x.saturating_add(width) > WIDTH {
            (x, y) = (MARGIN, y + LEGEND);
        }
        let entry = Entry {
            x,
            y,
            name,
            colour: index % COLOURS.len(),
        };
        x = x.saturating_add(width);
        entry
    };
    names.iter().enumerate().map(entry).collect()
}

fn below(legend: &[Entry]) -> u32 {
    legend.last().map_or(TITLE, |entry| entry.y + LEGEND + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_takes_as_many_lines_as_it_needs() {
        let names = ["a".repeat(60), "b".repeat(60), "c".to_owned()];
        let places: Vec<_> = legend(&names)
            .iter()
            .map(|entry| (entry.x, entry.y))
            .collect();
        assert_eq!(places, [(12, 34), (12, 54), (472, 54)]);
    }

    #[test]
    fn a_document_without_a_picture_is_refused() {
        let list = Section::list("", vec!["text".to_owned()]);
        let refused = document(&Document {
            title: String::new(),
            sections: vec![list],
        });
        assert!(matches!(refused, Err(RenderError::NoPicture)));
    }
}
