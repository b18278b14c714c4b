//! The orders of a list of figures, parsed as if they had been typed.

use anyhow::Result;
use clap::CommandFactory;
use pagetoll_bill::Spec;
use pagetoll_cost::published::{Orders, PublishedFigure};
use pagetoll_sim::validate::Specs;

use crate::args::Cli;
use crate::commands::sweep::order;
use crate::failure::Failure;

/// The orders of all figures, each once.
pub(super) fn specs(file: &str, figures: &[PublishedFigure]) -> Result<Specs> {
    let mut command = Cli::command();
    let mut specs = Specs::new();
    for figure in figures {
        for order in orders(figure) {
            if specs.contains_key(order) {
                continue;
            }
            let spec = spec(order, &mut command).map_err(|error| {
                let problem = format!("{order}: {error}");
                Failure::BadInput(figure.refused(file, problem).to_string())
            })?;
            specs.insert(order.to_owned(), spec);
        }
    }
    Ok(specs)
}

/// The words of a figure's orders; none of a figure that none models. A list has been checked for their form.
fn orders(figure: &PublishedFigure) -> Vec<&str> {
    let model = figure.model.as_ref();
    match model.and_then(|model| model.orders(figure.unit).ok()) {
        None => Vec::new(),
        Some(Orders::One(order)) => vec![order],
        Some(Orders::Two(before, after)) => vec![before, after],
    }
}

/// The order that these words after `pagetoll bill` give the simulator.
fn spec(order: &str, command: &mut clap::Command) -> Result<Spec> {
    let words =
        shlex::split(order).ok_or_else(|| Failure::BadInput("a quote is not closed".to_owned()))?;
    let words = ["pagetoll", "bill"]
        .map(str::to_owned)
        .into_iter()
        .chain(words);
    let words: Vec<String> = words.chain(["--on", "sim"].map(str::to_owned)).collect();
    Ok(order::order(&words, command)?.spec)
}
