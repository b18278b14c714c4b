//! Trust in the model, by route.

use std::collections::BTreeMap;

use pagetoll_bill::Route;
use pagetoll_bill::row::Interval;
use pagetoll_render::table::{Column, Table};
use pagetoll_sim::validate::Comparison;

/// Figures of one group: they count as one.
type Groups<'a> = BTreeMap<&'a str, Vec<&'a Comparison>>;

/// A line for each route, and one for all.
pub(super) fn by_route(compared: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("route"),
        Column::right("figures"),
        Column::right("predictions"),
        Column::right("blind"),
        Column::right("groups"),
        Column::right("median error"),
        Column::right("worst"),
        Column::right("inside"),
        Column::right("with error"),
        Column::right("median width"),
    ]);
    let of = |route: Option<Route>| {
        let of_route = |one: &&Comparison| route.is_none_or(|route| one.route == route);
        compared.iter().filter(of_route).collect::<Vec<_>>()
    };
    for &route in Route::ALL {
        let all = of(Some(route));
        if !all.is_empty() {
            table.row(line(&route.to_string(), &all));
        }
    }
    table.row(line("all", &of(None)));
    table
}

/// Explanations of the table's columns.
pub(super) fn notes() -> Vec<String> {
    [
        "Predictions are figures that no table is fitted to; blind are those that were not known before a change of the model. \
         All columns after that are of predictions.",
        "Figures of a group, such as two times and their ratio, count as one: as the share of them that is inside.",
        "Inside: between the 5th and the 95th of 100 samples of the cost table. With error: in that interval widened by the \
         model's error, which is the distance that nine of ten other groups of predictions keep from theirs, of the same route \
         where it has five of them.",
        "Median width: upper bound over lower bound of the interval with error.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn line(name: &str, all: &[&Comparison]) -> [String; 10] {
    let predictions: Vec<&Comparison> = all.iter().copied().filter(|one| !one.fitted).collect();
    let blind = predictions
        .iter()
        .filter(|one| one.published.seen.is_none());
    let mut groups = Groups::new();
    for &one in &predictions {
        groups.entry(one.group()).or_default().push(one);
    }
    let errors = sorted(predictions.iter().map(|one| one.error));
    let percent = |error: f64| format!("{:.0} %", 100.0 * error);
    let width = |Interval { low, high }: Interval| high / low;
    let widths = predictions
        .iter()
        .filter_map(|one| one.interval_with_error.map(width));
    [
        name.to_owned(),
        all.len().to_string(),
        predictions.len().to_string(),
        blind.count().to_string(),
        groups.len().to_string(),
        middle(&errors).map(percent).unwrap_or_default(),
        errors.last().copied().map(percent).unwrap_or_default(),
        share(&groups, Comparison::is_inside),
        share(&groups, Comparison::is_inside_with_error),
        middle(&sorted(widths))
            .map(|width| format!("{width:.2}"))
            .unwrap_or_default(),
    ]
}

/// The share of the groups for which `holds`, a group as the share of its figures.
#[expect(
    clippy::cast_precision_loss,
    reason = "a list has far fewer than 2^53 figures"
)]
fn share(groups: &Groups<'_>, holds: fn(&Comparison) -> bool) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let of = |group: &Vec<&Comparison>| {
        group.iter().filter(|one| holds(one)).count() as f64 / group.len() as f64
    };
    let share = groups.values().map(of).sum::<f64>() / groups.len() as f64;
    format!("{:.0} %", 100.0 * share)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median, the lower of two.
fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}
