//! `pagetoll bill`: bills an order and prints the bill.

use std::env;
use std::io::{self, Write};
use std::time::SystemTime;

use anyhow::Result;
use pagetoll_backend::{Billed, Timing};
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{Bill, Invocation, options};
use pagetoll_render::{Kind, harmless};

use super::deliver::deliver;
use super::graph::Graph;
use super::watched::watched;
use crate::args::{BillArgs, Verbosity};
use crate::backends;
use crate::command_line::command_line;
use crate::failure::Outcome;
use crate::output::{self, Destination};

/// Bills an order and prints the bill. Nothing starts before the whole order has been checked.
pub(crate) fn run(args: &BillArgs, verbosity: Verbosity) -> Result<Outcome> {
    let BillArgs { spec, given, .. } = args;
    let chosen = backends::chosen(spec.route, args.on, given);
    options::check(given, spec.route, chosen.kind).map_err(pagetoll_backend::Error::from)?;
    let destination = Destination::new(&args.output, Kind::Bill)?;
    let graph = spec
        .lab
        .flamegraph
        .as_deref()
        .map(|file| Graph::new(file, spec.lab.kernels.len()))
        .transpose()?;
    let prepared = backends::of(chosen.kind).prepare(spec)?;
    if spec.live.dry_run == Wanted::Yes {
        let intentions = prepared.intentions()?;
        let lines: String = intentions.iter().map(|line| format!("{line}\n")).collect();
        output::print(&format!("pagetoll would:\n{lines}"))?;
        return Ok(Outcome::Success);
    }
    let work = || watched(verbosity, |context| prepared.bill(context));
    let Billed {
        draft,
        timings,
        stacks,
    } = destination.unless_failed(work)?;
    let bill = draft.complete(invocation(chosen.reason));
    if matches!(verbosity, Verbosity::Summary | Verbosity::Debug) {
        // A closed stderr does not spoil a bill.
        let _ = io::stderr().write_all(summary(&bill, &timings).as_bytes());
    }
    if let Some(graph) = &graph {
        graph.write(&stacks, &bill)?;
    }
    deliver(&bill, &destination)
}

pub(super) fn invocation(backend_reason: String) -> Invocation {
    Invocation {
        backend_reason,
        when: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: command_line(env::args_os()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Wall time of the phases, and versions that were resolved.
fn summary(bill: &Bill, timings: &[Timing]) -> String {
    let mut text = String::from("resolved:\n");
    for (component, version) in &bill.stack {
        text += &format!("  {component:<14} {}\n", harmless(version));
    }
    for package in &bill.provenance.inputs.packages {
        text += &format!("  package        {} {}\n", package.name, package.version);
    }
    text += "wall time (boots overlap):\n";
    for Timing { phase, time } in timings {
        text += &format!("  {:>8.2} s  {}\n", time.as_secs_f64(), harmless(phase));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::commands::sample_bill;

    #[test]
    fn the_summary_has_versions_and_times() {
        let timing = Timing {
            phase: "counting boot 1".into(),
            time: Duration::from_millis(8_250),
        };
        let text = summary(&sample_bill(), &[timing]);
        assert!(text.contains("  xen            4.17.7"), "{text}");
        assert!(text.ends_with("      8.25 s  counting boot 1\n"), "{text}");
    }
}
