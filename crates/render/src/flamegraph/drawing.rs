//! Drawings of folded stacks by inferno.

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use thiserror::Error;

use crate::harmless;

/// Stacks that cannot be drawn.
#[derive(Debug, Error)]
#[error("cannot draw a flame graph: {0}")]
pub struct FlameGraphError(pub(super) String);

/// A frame without the characters that separate frames and counts.
pub(super) fn plain(frame: &str) -> String {
    harmless(frame).replace(';', ":").replace(' ', "_")
}

pub(super) fn options<'a>(title: &str, subtitle: &str) -> Options<'a> {
    let mut options = Options::default();
    options.title = harmless(title);
    options.subtitle = Some(harmless(subtitle));
    "instructions".clone_into(&mut options.count_name);
    // By annotations: _[k] is a kernel's function, _[j] and _[i] are free for others.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The same stacks are drawn the same.
    options.deterministic = true;
    options
}

pub(super) fn draw<'a>(
    lines: impl Iterator<Item = &'a str>,
    mut options: Options<'_>,
) -> Result<String, FlameGraphError> {
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines, &mut svg)
        .map_err(|error| FlameGraphError(error.to_string()))?;
    String::from_utf8(svg).map_err(|error| FlameGraphError(error.to_string()))
}
