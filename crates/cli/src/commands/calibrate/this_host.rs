//! A table of this host: what was measured stands before the figures that follow from it.

use std::time::SystemTime;

use anyhow::{Context, Result};
use pagetoll_bill::{HostLoad, Unit};
use pagetoll_cost::{CostTable, Derived, Kind};
use pagetoll_live::host;
use pagetoll_live::primitives::{self, DEFAULT_ROUNDS, MOST_ROUNDS, Measurements};

use super::{Figure, Table, figure_of, versions};
use crate::args::{CalibrateArgs, Verbosity};
use crate::commands::idle::BusyHost;
use crate::commands::watched::watched;
use crate::failure::Failure;

/// The table's name without `--name`.
pub(super) const NAME: &str = "this-host";

/// Measures, and writes the table down.
pub(super) fn text(args: &CalibrateArgs, verbosity: Verbosity) -> Result<String> {
    let rounds = args.rounds.unwrap_or(DEFAULT_ROUNDS);
    if !(1..=MOST_ROUNDS).contains(&rounds) {
        let problem = format!("--rounds {rounds}: expected 1 to {MOST_ROUNDS}");
        return Err(Failure::BadInput(problem).into());
    }
    if let Some(probe) = &args.probe {
        let problem = format!(
            "--probe {}: is of use in a Xen PV guest, which this host is not",
            probe.display()
        );
        return Err(Failure::BadInput(problem).into());
    }
    let name = args.name.as_deref().unwrap_or(NAME);
    table_text(
        name,
        &measured(rounds, BusyHost::new(args.busy), verbosity)?,
    )
}

/// Measures what demand paging is made of.
pub(in crate::commands) fn measured(
    rounds: u32,
    busy: BusyHost,
    verbosity: Verbosity,
) -> Result<Measurements> {
    busy.try_host()?;
    let found = watched(verbosity, |context| {
        Ok(primitives::measure(rounds, context)?)
    })?;
    busy.check(Some(found.load))?;
    Ok(found)
}

/// The table of these measurements, as a file has it.
pub(in crate::commands) fn table_text(name: &str, found: &Measurements) -> Result<String> {
    let when = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let text = comment(found) + &toml::to_string(&table(name, found, &when))?;
    // A table that cannot be read back is an error here, not at its first use.
    CostTable::parse(name, &text).context("the table of this host")?;
    Ok(text)
}

/// Everything that was measured, as a table for people.
fn comment(found: &Measurements) -> String {
    let mut text = format!(
        "# Made by `pagetoll calibrate --this-host`.\n# {}: {}.\n# Measured, in nanoseconds:\n#\n\
         #  {:<52} {:>8} {:>10} {:>10}  {:>6}\n",
        host_kind(found.load),
        host::said(found.load),
        "primitive",
        "median",
        "10 %",
        "90 %",
        "rounds"
    );
    for (primitive, estimate) in found.each() {
        text += &match estimate {
            Ok(e) => format!(
                "#  {:<52} {:>8.1} {:>10.1} {:>10.1}  {:>6}\n",
                primitive.to_string(),
                e.median,
                e.low,
                e.high,
                e.samples
            ),
            Err(reason) => format!("#  {primitive}: not measured: {reason}\n"),
        };
    }
    text + "\n"
}

/// `Idle host`, or `BUSY HOST`.
fn host_kind(load: HostLoad) -> &'static str {
    match load.is_busy() {
        true => "BUSY HOST, times are too long",
        false => "Idle host",
    }
}

fn table(name: &str, found: &Measurements, when: &str) -> Table {
    let busy = match found.load.is_busy() {
        true => ", while it was busy",
        false => "",
    };
    let of = |part: &str| found.stack.get(part).map_or("?", String::as_str);
    let host = format!("{}, Linux {}", of("cpu"), of("linux"));
    let figures = primitives::figures(found);
    Table {
        name: name.to_owned(),
        summary: format!(
            "{host}, {} CPUs: demand paging, measured on {when}{busy}",
            found.topology.cpus()
        ),
        unit: Unit::Nanoseconds,
        stack: versions(["linux"].map(|part| (part, found.stack.get(part).map(String::as_str)))),
        topology: Some(found.topology),
        figure: figures
            .into_iter()
            .map(|derived| figure(derived, &format!("{host}, {when}")))
            .collect(),
    }
}

fn figure(derived: Derived, measured: &str) -> (&'static str, Figure) {
    let source = match derived.kind {
        Kind::Measured => format!("{}; {measured}", derived.source),
        _ => derived.source.clone(),
    };
    figure_of(derived, source)
}
