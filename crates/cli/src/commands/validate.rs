//! `pagetoll validate`: published figures, or those of this host, beside what the simulator makes of them.

mod live;

use anyhow::Result;
use pagetoll_backend::Error;
use pagetoll_cost::published::{PublishedFigure, PublishedUnit};
use pagetoll_sim::routes::{DEFAULT_SAMPLES, Samples};
use pagetoll_sim::validate::{self, Comparison, Sensitivity};

use super::write_list;
use crate::args::{ValidateArgs, Verbosity};
use crate::failure::Outcome;
use crate::output::Destination;
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, Table};

/// The same figures whenever it is run.
const SAMPLES: Samples = Samples {
    count: DEFAULT_SAMPLES,
    seed: 1,
};

/// Where the published rates of demand paging are.
const RATES: &str =
    "demand.*: pages for each second, by `pagetoll bill demand --on sim --costs x86-256-core`";

pub(crate) fn run(args: &ValidateArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    if args.live {
        return live::run(args, &destination, verbosity);
    }
    let published = PublishedFigure::built_in();
    let compared = validate::validate(published, SAMPLES).map_err(Error::from)?;
    write_list(document(&compared, published), &compared, &destination)?;
    Ok(Outcome::Success)
}

fn document(compared: &[Comparison], published: &[PublishedFigure]) -> Document {
    let missing = validate::unexpressed(published)
        .map(|figure| format!("{}: {}", figure.id, figure.quantity));
    Document {
        title: "Published figures and the model".to_owned(),
        sections: vec![
            Section::facts("", coverage(compared)),
            Section::table("", figures(compared)),
            Section::table(
                "What dominates each result, one figure of the table at a time",
                sensitivities(compared),
            )
            .folded(),
            Section::list("Sources", sources(compared)),
            Section::list("Not modelled", missing.collect()),
            Section::list("Compared elsewhere", vec![RATES.to_owned()]),
        ],
    }
}

/// How many published figures are where 90 % of the samples lie: of a model that knows its own errors, nine of ten.
fn coverage(compared: &[Comparison]) -> Vec<Fact> {
    let of = |fitted: bool| {
        let kind: Vec<_> = compared.iter().filter(|one| one.fitted == fitted).collect();
        let inside = kind.iter().filter(|one| one.inside).count();
        format!("{inside} of {} inside 90 % of the samples", kind.len())
    };
    vec![
        Fact::new("predictions", of(false)),
        Fact::new(
            "fitted figures",
            format!("{}; they say nothing of the model", of(true)),
        ),
    ]
}

fn figures(compared: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("figure"),
        Column::left("unit"),
        Column::right("published"),
        Column::right("modelled"),
        Column::right("90 % of samples"),
        Column::right("error"),
        Column::left("inside"),
        Column::left("cost table"),
        Column::left("counts as"),
    ]);
    for one in compared {
        let unit = one.published.unit;
        let number = |value| number(value, unit);
        let interval = one
            .interval
            .map(|i| format!("{} to {}", number(i.low), number(i.high)));
        table.row([
            one.published.id.clone(),
            unit.to_string(),
            number(one.published.value),
            number(one.modelled),
            interval.unwrap_or_default(),
            format!("{:.0} %", 100.0 * one.error),
            if one.inside { "yes" } else { "no" }.to_owned(),
            one.costs.clone(),
            if one.fitted { "fitted" } else { "prediction" }.to_owned(),
        ]);
    }
    table
}

fn sensitivities(compared: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("figure"),
        Column::left("key of the cost table"),
        Column::right("at its low"),
        Column::right("at its value"),
        Column::right("at its high"),
    ]);
    let all = compared
        .iter()
        .flat_map(|one| one.sensitivity.iter().map(move |s| (one, s)));
    for (
        one,
        &Sensitivity {
            key,
            at_low,
            at_value,
            at_high,
        },
    ) in all
    {
        let number = |value| number(value, one.published.unit);
        table.row([
            one.published.id.clone(),
            key.to_owned(),
            number(at_low),
            number(at_value),
            number(at_high),
        ]);
    }
    table
}

fn sources(compared: &[Comparison]) -> Vec<String> {
    let line = |one: &Comparison| {
        let PublishedFigure {
            id,
            derived,
            source,
            system,
            ..
        } = &one.published;
        format!("{id} = {derived}: {source} ({system})")
    };
    compared.iter().map(line).collect()
}

fn number(value: f64, unit: PublishedUnit) -> String {
    match unit {
        PublishedUnit::Ns if value.abs() < 100.0 => format!("{value:.1}"),
        PublishedUnit::Ns | PublishedUnit::PagesPerSecond => format!("{value:.0}"),
        PublishedUnit::Ratio | PublishedUnit::Share => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_is_compared_or_listed_as_missing() {
        let published = PublishedFigure::built_in();
        let missing = validate::unexpressed(published).count();
        let samples = Samples { count: 3, seed: 1 };
        let compared = validate::validate(published, samples).unwrap();
        let rates = published
            .iter()
            .filter(|f| f.unit == PublishedUnit::PagesPerSecond);
        assert_eq!(compared.len() + missing + rates.count(), published.len());
        assert!(
            compared
                .iter()
                .all(|one| one.modelled > 0.0 && !one.sensitivity.is_empty())
        );
    }
}
