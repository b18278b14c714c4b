//! Lines over an axis, drawn as SVG. What is written takes the page's colours; lines have their own in both schemes.

mod axis;
mod ticks;

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Serialize;

use super::palette::COLOURS;
use crate::document::{Line, Mark, Plot, Scale, Spot};
use crate::error::RenderError;
use crate::figure;
use crate::harmless;
use axis::Axis;

/// In pixels, as wide as a page shows it without scaling.
pub(crate) const SIZE: (u32, u32) = (900, 320);
/// Stand for the page's ink and for its fine lines.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Names on an axis before they touch.
const MOST_NAMES: usize = 9;
/// The ratio of the largest value to the least up to which the scale is linear.
const LINEAR_UP_TO: f64 = 20.0;

/// A plot, as the template wants it.
#[derive(Serialize)]
pub(crate) struct Drawing {
    svg: String,
    lines: Vec<String>,
    /// Figures of others are in it.
    published: bool,
    /// A spot is marked as a step.
    steps: bool,
    /// A line has a band.
    bands: bool,
    /// For those who do not see it.
    described: String,
}

impl Drawing {
    /// The drawing for a document that is no page, which has no style for fine lines.
    pub(crate) fn alone(self) -> String {
        self.svg.replace("class=\"grid\"", "stroke=\"#d5d5d5\"")
    }
}

/// # Errors
/// Values that no axis can hold.
pub(crate) fn draw(plot: &Plot) -> Result<Drawing, RenderError> {
    let mut svg = String::new();
    let values = Values::new(plot);
    if !(values.least.is_finite() && values.most.is_finite()) {
        return Err(RenderError::Plot(
            "a value is not a finite number".to_owned(),
        ));
    }
    drawn(plot, &values, &mut svg).map_err(|error| RenderError::Plot(error.to_string()))?;
    let labels = plot.lines.iter().map(|line| harmless(&line.label));
    let labels: Vec<_> = labels.collect();
    let spots = || plot.lines.iter().flat_map(|line| &line.spots);
    Ok(Drawing {
        svg: in_the_pages_colours(&svg),
        described: format!(
            "{} over {}: {}; the table below has the figures",
            harmless(&plot.unit),
            harmless(&plot.axis),
            labels.join("; ")
        ),
        lines: labels,
        published: spots().any(|spot| spot.published.is_some()),
        steps: spots().any(|spot| spot.steps),
        bands: spots().any(|spot| spot.band.is_some()),
    })
}

/// The library writes colours as attributes and knows no others.
fn in_the_pages_colours(svg: &str) -> String {
    svg.replace("\"#010101\"", "\"currentColor\"")
        .replace("stroke=\"#020202\"", "class=\"grid\"")
}

/// Everything that has to be inside the frame.
struct Values {
    least: f64,
    most: f64,
}

impl Values {
    fn new(plot: &Plot) -> Self {
        let spots = plot.lines.iter().flat_map(|line| &line.spots);
        let values = spots.flat_map(|spot| {
            let (low, high) = spot.band.unwrap_or((spot.value, spot.value));
            // A deviation that is more than a positive value has no place on a logarithmic axis: its band ends at the frame.
            let low = Some(low).filter(|low| *low > 0.0 || spot.value <= 0.0);
            [Some(spot.value), low, Some(high), spot.published]
                .into_iter()
                .flatten()
        });
        values.fold(
            Self {
                least: f64::INFINITY,
                most: f64::NEG_INFINITY,
            },
            |seen, value| Self {
                least: seen.least.min(value),
                most: seen.most.max(value),
            },
        )
    }

    fn scale(&self) -> Scale {
        Scale::for_range(self.least, self.most, LINEAR_UP_TO)
    }

    /// From 0, unless all values are in the upper half: then what differs is shown.
    fn range(&self) -> Range<f64> {
        let Self { least, most } = *self;
        if self.scale() == Scale::Logarithmic {
            return least / 1.3..most * 1.3;
        }
        let margin = ((most - least) * 0.15)
            .max(most.abs() * 0.01)
            .max(f64::MIN_POSITIVE);
        let from = if least >= 0.0 && least < most / 2.0 {
            0.0
        } else {
            least - margin
        };
        from..most + margin
    }
}

/// The axis with some room at both ends.
fn across(plot: &Plot) -> Range<f64> {
    let (Some(first), Some(last)) = (plot.marks.first(), plot.marks.last()) else {
        return 0.0..1.0;
    };
    match plot.scale {
        Scale::Logarithmic => first.at / 1.2..last.at * 1.2,
        Scale::Linear => {
            let span = last.at - first.at;
            let margin = if span > 0.0 { span * 0.05 } else { 0.5 };
            first.at - margin..last.at + margin
        }
    }
}

type Error = DrawingAreaErrorKind<std::io::Error>;
type Frame<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn drawn(plot: &Plot, values: &Values, svg: &mut String) -> Result<(), Error> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut frame = frame(&area, plot, values)?;
    for (line, colour) in plot.lines.iter().zip(COLOURS.iter().cycle()) {
        trace(&mut frame, line, values.range().start, *colour)?;
    }
    area.present()
}

fn frame<'a, 'b>(area: &'a Area<'b>, plot: &Plot, values: &Values) -> Result<Frame<'a, 'b>, Error> {
    let shown = shown(&plot.marks);
    let x = Axis {
        range: across(plot),
        scale: plot.scale,
        marks: shown.iter().map(|mark| mark.at).collect(),
    };
    let y = Axis {
        range: values.range(),
        scale: values.scale(),
        marks: ticks::on(&values.range(), values.scale()),
    };
    let mut frame = ChartBuilder::on(area)
        .margin(8)
        .margin_right(30)
        .x_label_area_size(44)
        .y_label_area_size(78)
        .build_cartesian_2d(x, y)?;
    let text = ("sans-serif", 13).into_font().color(&INK);
    let name = |at: f64| shown.iter().find(|mark| mark.at == at);
    frame
        .configure_mesh()
        .axis_style(GRID)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(text.clone())
        .axis_desc_style(text)
        .x_desc(harmless(&plot.axis))
        .y_desc(harmless(&plot.unit))
        .x_label_formatter(&|at| name(*at).map_or_else(String::new, |mark| harmless(&mark.name)))
        .y_label_formatter(&|value| figure::short(*value))
        .draw()?;
    Ok(frame)
}

/// The marks that have room for their names: the last one, and others at equal distances before it.
fn shown(marks: &[Mark]) -> Vec<Mark> {
    let stride = marks.len().div_ceil(MOST_NAMES).max(1);
    let mut shown: Vec<_> = marks.iter().rev().step_by(stride).cloned().collect();
    shown.reverse();
    shown
}

/// The band, the line, a dot for each value, a ring around those that stepped, a cross for what others published.
fn trace(
    frame: &mut Frame<'_, '_>,
    line: &Line,
    floor: f64,
    colour: RGBColor,
) -> Result<(), Error> {
    let bands = || {
        line.spots
            .iter()
            .filter_map(|spot| Some((spot.at, spot.band?)))
    };
    let below = bands().map(|(at, (low, _))| (at, low.max(floor)));
    let above = bands().map(|(at, (_, high))| (at, high));
    let outline: Vec<_> = below.chain(above.rev()).collect();
    if outline.len() > 2 {
        frame.draw_series([Polygon::new(outline, colour.mix(0.18))])?;
    }
    let at = |spot: &Spot| (spot.at, spot.value);
    frame.draw_series(LineSeries::new(
        line.spots.iter().map(at),
        colour.stroke_width(2),
    ))?;
    let dots = line
        .spots
        .iter()
        .map(|spot| Circle::new(at(spot), 3, colour.filled()));
    frame.draw_series(dots)?;
    let steps = line.spots.iter().filter(|spot| spot.steps);
    frame.draw_series(steps.map(|spot| Circle::new(at(spot), 7, INK)))?;
    let published = line
        .spots
        .iter()
        .filter_map(|spot| Some((spot.at, spot.published?)));
    frame.draw_series(published.map(|at| Cross::new(at, 5, colour.stroke_width(2))))?;
    Ok(())
}
