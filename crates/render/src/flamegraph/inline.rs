//! The flame graph of a profile, for a page that has a style and a policy of its own: frames alone, without scripts.

use inferno::flamegraph::Direction;
use inferno::flamegraph::color::{Color, PaletteMap};
use pagetoll_bill::profile::{Call, Part};
use plotters::style::RGBColor;

use super::drawing::{FlameGraphError, draw, options, plain};
use crate::document::Calls;
use crate::figure;
use crate::picture::palette::COLOURS;

/// In pixels.
const WIDTH: usize = 1200;
const FRAME: u32 = 16;
/// The width of a letter, as a share of its height: of the wider fonts.
const LETTER: f64 = 0.62;
/// Counts are whole: those of a drawing add up to about so many.
const WHOLE: f64 = 1e9;

/// The frames of a profile as an element of HTML; the outermost functions are at the top.
///
/// # Errors
/// No function has executed anything.
pub(crate) fn inline(calls: &Calls) -> Result<String, FlameGraphError> {
    let outermost = calls.functions.iter().filter(|call| call.depth == 0);
    let whole: f64 = outermost.map(|call| call.cost_per_page).sum();
    let mut lines = lines(calls, whole);
    lines.sort();
    let mut colours = PaletteMap::default();
    for call in &calls.functions {
        colours.insert(label(call, &calls.unit), colour(call.part));
    }
    let mut options = options("", "");
    options.subtitle = None;
    options.direction = Direction::Inverted;
    options.image_width = Some(WIDTH);
    options.no_javascript = true;
    options.font_width = LETTER;
    options.palette_map = Some(&mut colours);
    let svg = draw(lines.iter().map(String::as_str), options)?;
    frames(&svg).ok_or_else(|| FlameGraphError("it has no frames".to_owned()))
}

/// A line for each function, with what it executed itself.
fn lines(calls: &Calls, whole: f64) -> Vec<String> {
    let mut stack: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for (index, call) in calls.functions.iter().enumerate() {
        // A caller that is not there cannot be called from.
        let depth = usize::try_from(call.depth).unwrap_or(usize::MAX);
        stack.truncate(depth);
        stack.push(label(call, &calls.unit));
        let below = calls.functions[index + 1..]
            .iter()
            .take_while(|below| below.depth > call.depth)
            .filter(|below| below.depth == call.depth + 1);
        let called: f64 = below.map(|below| below.cost_per_page).sum();
        let own = (call.cost_per_page - called).clamp(0.0, whole);
        let count = (own / whole * WHOLE).round();
        if count >= 1.0 {
            lines.push(format!("{} {count:.0}", stack.join(";")));
        }
    }
    lines
}

/// Counts of a drawing are whole, costs are not: they are part of the name.
fn label(call: &Call, unit: &str) -> String {
    let (name, cost) = (plain(&call.name), figure::cost(call.cost_per_page));
    format!("{name}: {cost} {unit}")
}

fn colour(part: Part) -> Color {
    let RGBColor(r, g, b) = COLOURS[part_colour(part)];
    Color { r, g, b }
}

/// The number of a part's colour: those on which black letters have the contrast of WCAG 2.1, 1.4.3.
pub(crate) const fn part_colour(part: Part) -> usize {
    match part {
        Part::Probe => 4,
        Part::Kernel => 1,
        Part::Hypervisor => 2,
        Part::UserSpace => 3,
    }
}

/// The frames of a drawing, without the one of all and without what is around them: its style would be that of the whole
/// page, and its script would be blocked.
fn frames(svg: &str) -> Option<String> {
    let frames = svg.split_once("<svg id=\"frames\"")?.1;
    let all: Vec<Frame<'_>> = frames.split("<g>").filter_map(Frame::read).collect();
    let top = all.iter().map(|frame| frame.y).min()? + FRAME;
    let bottom = all.iter().map(|frame| frame.y).max()?;
    let drawn = all.iter().filter(|frame| frame.y >= top);
    let drawn: String = drawn.map(|frame| frame.element(top)).collect();
    let height = bottom + FRAME - top;
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\">{drawn}</svg>"
    ))
}

/// A frame as it was drawn; its texts are escaped.
struct Frame<'a> {
    label: &'a str,
    share: &'a str,
    x: &'a str,
    y: u32,
    width: &'a str,
    fill: &'a str,
    text: &'a str,
}

impl<'a> Frame<'a> {
    fn read(element: &'a str) -> Option<Self> {
        let between = |from: &str, to: &str| {
            let rest = element.split_once(from)?.1;
            Some(rest.split_once(to)?.0)
        };
        let (label, figures) = between("<title>", ")</title>")?.rsplit_once(" (")?;
        Some(Self {
            label,
            share: figures.rsplit(' ').next()?,
            x: between("<rect x=\"", "\"")?,
            y: between("\" y=\"", "\"")?.parse().ok()?,
            width: between("width=\"", "\"")?,
            fill: between("fill=\"", "\"")?,
            text: between("<text", "</text>")?.split_once('>')?.1,
        })
    }

    fn element(&self, top: u32) -> String {
        let Self {
            label,
            share,
            x,
            width,
            fill,
            text,
            ..
        } = self;
        let y = self.y - top;
        let height = FRAME - 1;
        let text = match text.is_empty() {
            true => String::new(),
            false => format!("<text x=\"{x}\" y=\"{y}\" dx=\"3\" dy=\"12\">{text}</text>"),
        };
        format!(
            "<g><title>{label}, {share}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>{text}</g>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::well_formed;

    fn call(name: &str, depth: u32, cost_per_page: f64) -> Call {
        Call {
            name: name.to_owned(),
            part: Part::Kernel,
            depth,
            cost_per_page,
        }
    }

    fn with_unit(calls: &[Call]) -> Calls {
        Calls {
            unit: "u".to_owned(),
            functions: calls.to_vec(),
        }
    }

    #[test]
    fn a_function_is_below_its_caller_and_has_what_it_executed_itself() {
        let calls = [
            call("a", 0, 75.0),
            call("b", 1, 30.0),
            call("c", 1, 10.0),
            call("d", 0, 25.0),
        ];
        assert_eq!(
            lines(&with_unit(&calls), 100.0),
            [
                "a: 75.0 u 350000000",
                "a: 75.0 u;b: 30.0 u 300000000",
                "a: 75.0 u;c: 10.0 u 100000000",
                "d: 25.0 u 250000000"
            ]
        );
        let lost = [call("a", 0, 1.0), call("b", u32::MAX, 1.0)];
        let line = "a: 1.0 u;b: 1.0 u 1000000000";
        assert_eq!(lines(&with_unit(&lost), 1.0)[1], line);
    }

    #[test]
    fn frames_come_without_script_style_or_identifier() {
        let calls = [call("do_munmap", 0, 80.0), call("<script>\"&\n", 1, 30.0)];
        let svg = inline(&with_unit(&calls)).unwrap();
        well_formed(&svg);
        assert!(
            svg.contains("<title>do_munmap: 80.0 u, 100.00%</title>"),
            "{svg}"
        );
        assert!(svg.contains("30.0 u, 37.50%</title>"), "{svg}");
        for part in ["<script", "<style", "id=", "onload", "url(", "http"] {
            assert!(!svg.contains(part), "{part}: {svg}");
        }
    }
}
