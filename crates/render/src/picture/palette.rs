//! Colours of parts and lines, told apart also by those who see few colours: Okabe and Ito's, and a grey.

use plotters::style::RGBColor;

/// Colours; more parts than these repeat them.
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
    RGBColor(138, 138, 138),
];

/// The classes `c0`, `c1`, ... of a style sheet.
pub(crate) fn style() -> String {
    let colours = COLOURS.iter().enumerate();
    colours
        .map(|(index, RGBColor(r, g, b))| format!(".c{index}{{fill:#{r:02x}{g:02x}{b:02x}}}"))
        .collect()
}
