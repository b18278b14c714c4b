//! `pagetoll validate`: published figures, or those of this host, beside what the simulator makes of them.

mod coverage;
mod live;
mod orders;

use std::path::Path;

use anyhow::Result;
use pagetoll_backend::{Stop, input};
use pagetoll_cost::published::{PublishedFigure, PublishedUnit};
use pagetoll_sim::routes::{DEFAULT_SAMPLES, Samples};
use pagetoll_sim::validate::{self, Comparison, List, Sensitivity};

use super::write_list;
use crate::args::{ValidateArgs, Verbosity};
use crate::commands::watched::attended;
use crate::failure::{Failure, Outcome};
use crate::output::Destination;
use pagetoll_bill::row::Interval;
use pagetoll_render::document::{Document, Section};
use pagetoll_render::table::{Column, Table};

/// Samples and seed: fixed, so that every run prints equal figures.
const SAMPLES: Samples = Samples {
    count: DEFAULT_SAMPLES,
    seed: 1,
};

/// A larger file is no list of figures, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Name of the list that comes with pagetoll.
const BUILT_IN: &str = "published/published.toml";

pub(crate) fn run(args: &ValidateArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    if args.live {
        return live::run(args, &destination, verbosity);
    }
    let lists = args.files.iter().map(|file| read(file));
    let lists = lists.collect::<Result<Vec<_>>>()?;
    let built_in = PublishedFigure::built_in();
    let compare = |stop: &Stop| -> Result<Vec<Comparison>> {
        let own = lists
            .iter()
            .map(|(name, figures)| compared(name, figures, stop));
        let mut own = own.collect::<Result<Vec<_>>>()?.concat();
        let known = compared(BUILT_IN, built_in, stop)?;
        if lists.is_empty() {
            own.clone_from(&known);
        }
        validate::add_model_error(&mut own, &known);
        Ok(own)
    };
    let compared = attended(verbosity, |context| compare(context.stop))?;
    let all: Vec<PublishedFigure> = match lists.is_empty() {
        true => built_in.to_vec(),
        false => lists.into_iter().flat_map(|(_, figures)| figures).collect(),
    };
    write_list(document(&compared, &all), &compared, &destination)?;
    Ok(Outcome::Success)
}

/// The list in a file, with its name in messages.
fn read(file: &Path) -> Result<(String, Vec<PublishedFigure>)> {
    let name = file.display().to_string();
    let text = input::read_text(file, MOST_BYTES)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    let figures = PublishedFigure::list(&name, &text);
    let figures = figures.map_err(|error| Failure::BadInput(error.to_string()))?;
    Ok((name, figures))
}

fn compared(file: &str, figures: &[PublishedFigure], stop: &Stop) -> Result<Vec<Comparison>> {
    let specs = orders::specs(file, figures)?;
    let list = List {
        file,
        figures,
        specs: &specs,
    };
    Ok(validate::validate(list, SAMPLES, stop)?)
}

fn document(compared: &[Comparison], published: &[PublishedFigure]) -> Document {
    let missing = validate::unexpressed(published)
        .map(|figure| format!("{}: {}", figure.id, figure.quantity));
    Document {
        title: "Published figures and the model".to_owned(),
        sections: vec![
            Section::list("Outside of the model's interval", outside(compared)),
            Section::table("", figures(compared)),
            Section::table(
                "How far to trust the model, by route",
                coverage::by_route(compared),
            ),
            Section::list("", coverage::notes()),
            Section::list("Known before a change of the model", ledger(compared)).folded(),
            Section::table(
                "What dominates each result, one figure of the table at a time",
                sensitivities(compared),
            )
            .folded(),
            Section::list("Sources", sources(compared)),
            Section::list("Not modelled", missing.collect()),
        ],
    }
}

fn figures(compared: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("figure"),
        Column::left("unit"),
        Column::right("published"),
        Column::right("modelled"),
        Column::right("90 % of samples"),
        Column::right("with the model's error"),
        Column::right("error"),
        Column::left("inside"),
        Column::left("cost table"),
        Column::left("counts as"),
    ]);
    for one in compared {
        let unit = one.published.unit;
        let number = |value| number(value, unit);
        let interval = |interval: Option<Interval>| {
            let bounds = interval.map(|i| format!("{} to {}", number(i.low), number(i.high)));
            bounds.unwrap_or_default()
        };
        table.row([
            one.published.id.clone(),
            unit.to_string(),
            number(one.published.value),
            number(one.modelled),
            interval(one.interval),
            interval(one.interval_with_error),
            format!("{:.0} %", 100.0 * one.error),
            inside(one).to_owned(),
            one.costs.clone(),
            evidence(one).to_owned(),
        ]);
    }
    table
}

/// The predictions that no interval holds: the model is wrong there, or the figure is.
fn outside(compared: &[Comparison]) -> Vec<String> {
    let outside = compared
        .iter()
        .filter(|one| !one.fitted && !one.is_inside_with_error());
    let line = |one: &Comparison| {
        let Comparison {
            published,
            modelled,
            ..
        } = one;
        let times = (published.value / modelled).max(modelled / published.value);
        format!(
            "{}: {times:.1} times off, {}",
            published.id, published.quantity
        )
    };
    outside.map(line).collect()
}

/// The intervals that hold the published figure.
fn inside(one: &Comparison) -> &'static str {
    match (one.is_inside(), one.is_inside_with_error()) {
        (true, _) => "yes",
        (false, true) => "with error",
        (false, false) => "no",
    }
}

/// Worth of a comparison as evidence of the model.
fn evidence(one: &Comparison) -> &'static str {
    match (one.fitted, &one.published.seen) {
        (true, _) => "fitted",
        (false, Some(_)) => "known",
        (false, None) => "blind",
    }
}

/// The figures that were known before a change of the model, and the change.
fn ledger(compared: &[Comparison]) -> Vec<String> {
    let line = |one: &Comparison| {
        let seen = one.published.seen.as_ref()?;
        Some(format!("{}: {seen}", one.published.id))
    };
    compared.iter().filter_map(line).collect()
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
    fn every_published_figure_is_compared() {
        let published = PublishedFigure::built_in();
        assert_eq!(validate::unexpressed(published).count(), 0);
        let compared = compared(BUILT_IN, published, &Stop::new()).unwrap();
        assert_eq!(compared.len(), published.len());
        assert!(compared.iter().all(|one| one.modelled > 0.0));
    }
}
