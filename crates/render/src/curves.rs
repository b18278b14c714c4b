//! Several bills as curves: where costs stepped first, then a chart and its figures for each operation.

mod labels;
mod spark;
mod split;

use pagetoll_compare::curves::{Axis, Chart, Curve, CurveStep, Curves, Place, Quantity};
use pagetoll_compare::diff::{Change, PerPage};

use crate::diff::rule;
use crate::document::{Document, Fact, Line, Mark, Plot, Scale, Section, Spot};
use crate::figure;
use crate::format::Kind;
use crate::subject::{Detail, Subject};
use crate::table::{Column, NONE, Table};
use crate::unique::unique;

use labels::{labels, row};
use spark::sparkline;
use split::{Part, parts};

/// Places whose figures a table shows; of more, the last ones, after the trend of all.
const MOST_PLACES: usize = 10;
/// The ratio of an axis's last number to its first up to which its scale is linear.
const LINEAR_UP_TO: f64 = 8.0;

impl Subject for Curves {
    const KIND: Kind = Kind::Curves;

    fn document(&self, detail: Detail) -> Document {
        let mut sections = vec![Section::facts("", header(self))];
        sections.extend(steps(self, detail));
        sections.push(
            Section::list("Not compared: their memory lay otherwise", elsewhere(self)).folded(),
        );
        for chart in &self.charts {
            for part in parts(chart) {
                let title = title(&part);
                let table = table(self.axis, &part, detail);
                if detail == Detail::Page {
                    sections.push(Section::plot(title, plot(self.axis, &part)));
                    sections.push(Section::table("", table));
                } else {
                    sections.push(Section::table(title, table));
                }
            }
        }
        Document {
            title: heading(self),
            sections,
        }
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// The plots alone.
pub(crate) fn plots(curves: &Curves) -> Vec<Section> {
    let parts = curves.charts.iter().flat_map(parts);
    parts
        .map(|part| Section::plot(title(&part), plot(curves.axis, &part)))
        .collect()
}

fn heading(curves: &Curves) -> String {
    let routes = unique(curves.charts.iter().map(|chart| chart.route));
    let routes: Vec<_> = routes.iter().map(ToString::to_string).collect();
    let lines: usize = curves.charts.iter().map(|chart| chart.curves.len()).sum();
    let of = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let mut parts = vec![of(curves.bills, "bill"), of(lines, "curve")];
    if curves.axis.is_ordered_by_change() {
        parts.push(of(curves.steps().count(), "step"));
    }
    format!(
        "{} over {}: {}",
        routes.join(", "),
        name(curves.axis),
        parts.join(", ")
    )
}

fn meaning(axis: Axis) -> &'static str {
    axis.meaning().trim_end_matches('.')
}

const fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Kernel => "kernels",
        Axis::Xen => "versions of Xen",
        Axis::Vcpus => "vCPUs",
        Axis::Batch => "batches",
        Axis::Pages => "pages",
        Axis::Date => "dates",
    }
}

fn header(curves: &Curves) -> Vec<Fact> {
    let mut facts = vec![Fact::new(
        "axis",
        format!("{}: {}", curves.axis, meaning(curves.axis)),
    )];
    if curves.axis.is_ordered_by_change() {
        for evidence in unique(curves.charts.iter().map(|chart| chart.evidence)) {
            let rule = rule(evidence, curves.tolerance);
            facts.push(Fact::new("a step", format!("between neighbours: {rule}")));
        }
    }
    facts
}

/// Steps that a page shows before it is asked for more.
const MOST_STEPS: usize = 20;

fn steps(curves: &Curves, detail: Detail) -> Vec<Section> {
    let mut steps: Vec<_> = curves.steps().collect();
    let share = |step: &CurveStep<'_>| step.change.share().abs();
    steps.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let shown = match detail {
        Detail::Short => steps.len(),
        Detail::Full | Detail::Page => steps.len().min(MOST_STEPS),
    };
    let (first, others) = steps.split_at(shown);
    vec![
        Section::table("Steps, the largest first", table_of(first)),
        Section::table("Smaller steps", table_of(others)).folded(),
    ]
}

fn table_of(steps: &[CurveStep<'_>]) -> Table {
    let mut table = Table::default();
    let to = |step: &CurveStep<'_>| step.to.name.clone();
    table.each(steps, Column::left("since"), to);
    table.each(steps, Column::left("after").rank(3), |step| {
        step.from.name.clone()
    });
    table.each(steps, Column::left("row").wrapping(), |step| {
        row(step.chart, step.curve)
    });
    table.each(steps, Column::right("change"), |step| {
        figure::change(step.change.new, step.change.old, 1)
    });
    table.each(steps, Column::right("old").rank(5), |step| {
        figure::cost(step.change.old)
    });
    table.each(steps, Column::right("new").rank(6), |step| {
        figure::cost(step.change.new)
    });
    table.each(steps, Column::right("p").rank(0), |step| {
        figure::optional(step.change.p_value.map(|p| figure::fixed(p, 4)))
    });
    table.each(steps, Column::left("toll that moved").wrapping(), |step| {
        moved(&step.change.tolls, step.change)
    });
    table.each(
        steps,
        Column::left("function that moved").wrapping(),
        |step| moved(&step.change.functions, step.change),
    );
    table.each(
        steps,
        Column::left("crossing that moved").wrapping().rank(1),
        |step| crossing(step.change),
    );
    table
}

/// The least number of crossings of a page. Fewer are those of interrupts, not of what was billed.
const LEAST_CROSSINGS: f64 = 0.01;

/// The kind that moved most the way that the cost did.
fn crossing(change: &Change) -> String {
    let way = (change.new - change.old).signum();
    let counts = |kind: &&PerPage| kind.difference() * way >= LEAST_CROSSINGS;
    change.crossings.iter().find(counts).map_or_else(
        || NONE.to_owned(),
        |kind| format!("{} {}", kind.name, figure::signed(kind.difference(), 4)),
    )
}

/// The points that no step can lead to.
fn elsewhere(curves: &Curves) -> Vec<String> {
    let of_curve = |chart: &Chart, curve: &Curve| {
        let points = curve.points.iter().filter(|point| point.other_memory);
        let places: Vec<_> = points.map(|point| point.at.name.clone()).collect();
        (!places.is_empty()).then(|| format!("{}: {}", row(chart, curve), places.join(", ")))
    };
    let of_chart = |chart: &Chart| -> Vec<String> {
        let curves = chart.curves.iter();
        curves.filter_map(|curve| of_curve(chart, curve)).collect()
    };
    match curves.axis.is_ordered_by_change() {
        true => curves.charts.iter().flat_map(of_chart).collect(),
        false => Vec::new(),
    }
}

/// From which share of a step on something explains it.
const EXPLAINS: f64 = 0.1;

/// The one that moved most the way that the cost did.
fn moved(items: &[PerPage], change: &Change) -> String {
    let step = change.new - change.old;
    let explains = |item: &&PerPage| item.difference() / step >= EXPLAINS;
    items.iter().find(explains).map_or_else(
        || NONE.to_owned(),
        |item| format!("{} {}", item.name, figure::signed(item.difference(), 1)),
    )
}

fn title(part: &Part<'_>) -> String {
    let Chart {
        route, operation, ..
    } = part.chart;
    let of = match &part.of {
        Some(of) => format!(", {of}"),
        None => String::new(),
    };
    format!("{route}: {operation}{of}, {}", unit(part.chart))
}

fn unit(chart: &Chart) -> String {
    match chart.quantity {
        Quantity::Cost => format!("{}/{}", figure::unit(chart.unit), chart.route.item().one),
        Quantity::Rate => "pages/s".to_owned(),
    }
}

/// A line for each curve, a column for each place.
fn table(axis: Axis, part: &Part<'_>, detail: Detail) -> Table {
    let places = places(part);
    let shown = &places[places.len().saturating_sub(MOST_PLACES)..];
    let labels = labels(&part.curves);
    let mut table = Table::default();
    let rows: Vec<_> = labels.iter().zip(&part.curves).collect();
    table.each(&rows, Column::left("curve").wrapping(), |(label, _)| {
        (*label).clone()
    });
    // A page has the curve itself.
    if places.len() > 2 && detail != Detail::Page {
        table.each(&rows, Column::left("trend").rank(200), |(_, curve)| {
            sparkline(curve, &places)
        });
    }
    let last = shown.len().saturating_sub(1);
    for (index, (place, name)) in shown.iter().zip(labels::named(axis, shown)).enumerate() {
        let column = Column::right(name);
        // The last place and the first are what a narrow terminal keeps.
        let column = match index {
            0 => column,
            index if index == last => column,
            index => column.rank(u8::try_from(index).unwrap_or(u8::MAX)),
        };
        table.each(&rows, column, |(_, curve)| value(part.chart, curve, place));
    }
    table
}

fn value(chart: &Chart, curve: &Curve, place: &Place) -> String {
    let point = curve
        .points
        .iter()
        .find(|point| point.at.name == place.name);
    figure::optional(point.map(|point| match chart.quantity {
        Quantity::Cost => figure::cost(point.value),
        Quantity::Rate => figure::fixed(point.value, 0),
    }))
}

/// The places of all curves, each once, in the order of the axis.
fn places<'a>(part: &Part<'a>) -> Vec<&'a Place> {
    let points = part.curves.iter().flat_map(|curve| &curve.points);
    let mut places: Vec<_> = points.map(|point| &point.at).collect();
    places.sort_by(|a, b| a.cmp_on(b));
    places.dedup_by(|a, b| a.name == b.name);
    places
}

fn plot(axis: Axis, part: &Part<'_>) -> Plot {
    let places = places(part);
    let marks = marks(axis, &places);
    let lines = labels(&part.curves).into_iter().zip(&part.curves);
    let ends = marks.first().zip(marks.last());
    Plot {
        unit: unit(part.chart),
        axis: meaning(axis).to_owned(),
        scale: match (axis, ends) {
            (Axis::Vcpus | Axis::Batch | Axis::Pages, Some((first, last))) => {
                Scale::for_range(first.at, last.at, LINEAR_UP_TO)
            }
            _ => Scale::Linear,
        },
        lines: lines
            .map(|(label, curve)| line(part.chart, &places, label, curve))
            .collect(),
        marks,
    }
}

/// Versions have an order and no distance: they are as far apart as their indices.
fn marks(axis: Axis, places: &[&Place]) -> Vec<Mark> {
    let marks = places.iter().zip(labels::named(axis, places)).enumerate();
    marks
        .map(|(index, (place, name))| Mark {
            at: place.number.unwrap_or_else(|| number(index)),
            name,
        })
        .collect()
}

fn number(index: usize) -> f64 {
    u32::try_from(index).map_or(f64::MAX, f64::from)
}

fn line(chart: &Chart, places: &[&Place], label: String, curve: &Curve) -> Line {
    let index = |name: &str| places.iter().position(|place| place.name == name);
    let is_rate = chart.quantity == Quantity::Rate;
    let spots = curve.points.iter().map(|point| Spot {
        at: point
            .at
            .number
            .unwrap_or_else(|| index(&point.at.name).map_or(0.0, number)),
        value: point.value,
        band: point.band.map(|band| (band.low, band.high)),
        published: point.published.filter(|_| is_rate),
        steps: point.step.is_some(),
    });
    Line {
        label,
        spots: spots.collect(),
    }
}
