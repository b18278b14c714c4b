//! `pagetoll bill`: makes a bill and prints it.

use std::env;
use std::io::{self, Write};
use std::time::SystemTime;

use anyhow::{Context, Result};
use pagetoll_bill::Bill;
use pagetoll_lab::LabError;
use pagetoll_lab::cache::Cache;
use pagetoll_lab::unmap::{self, Billed, Surroundings};

use super::deliver::deliver;
use crate::args::{BillArgs, Verbosity};
use crate::failure::Outcome;
use crate::progress;
use crate::request::{BillRequest, command_line};
use crate::signals::Signals;

/// Makes a bill and prints it.
pub(crate) fn run(args: BillArgs, verbosity: Verbosity) -> Result<Outcome> {
    let request = BillRequest::new(args, command_line(env::args_os()))?;
    let signals = Signals::watch().context("cannot watch for signals")?;
    let mut billed =
        work(&request, &signals, verbosity).map_err(|error| because(error, &signals))?;
    complete(&mut billed.bill, &request.backend_reason);
    if verbosity != Verbosity::Quiet {
        // A closed stderr does not spoil a bill.
        let _ = io::stderr().write_all(summary(&billed).as_bytes());
    }
    deliver(&billed.bill, request.format, request.output.as_deref())
}

fn work(
    request: &BillRequest,
    signals: &Signals,
    verbosity: Verbosity,
) -> Result<Billed, LabError> {
    let cache = Cache::open(signals.stop())?;
    let progress = progress::on_stderr(verbosity);
    let surroundings = Surroundings {
        cache: &cache,
        stop: signals.stop(),
        progress: progress.as_ref(),
    };
    unmap::bill(&request.lab, &surroundings)
}

/// Adds what only the command line knows: why this backend, and the time.
fn complete(bill: &mut Bill, backend_reason: &str) {
    backend_reason.clone_into(&mut bill.backend_reason);
    bill.provenance.when = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
}

/// Which signal it was that stopped the work.
fn because(error: LabError, signals: &Signals) -> anyhow::Error {
    match (&error, signals.failure()) {
        (LabError::Stopped, Some(failure)) => failure.into(),
        _ => error.into(),
    }
}

/// Where the time went, and what was resolved.
fn summary(billed: &Billed) -> String {
    let mut text = String::from("resolved:\n");
    let bill = &billed.bill;
    for (component, version) in &bill.stack {
        text += &format!("  {component:<14} {version}\n");
    }
    for package in &bill.provenance.packages {
        text += &format!("  package        {} {}\n", package.name, package.version);
    }
    text += "wall time (boots overlap):\n";
    for (phase, time) in &billed.timings {
        text += &format!("  {:>8.2} s  {phase}\n", time.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_summary_tells_versions_and_times() {
        let sample = include_bytes!("../../tests/data/sample-bill.json");
        let billed = Billed {
            bill: serde_json::from_slice(sample).unwrap(),
            timings: vec![("counting boot 1".into(), Duration::from_millis(8_250))],
        };
        let text = summary(&billed);
        assert!(text.contains("  xen            4.17.7"), "{text}");
        assert!(text.ends_with("      8.25 s  counting boot 1\n"), "{text}");
    }

    #[test]
    fn without_a_signal_the_labs_error_stands() {
        let signals = Signals::watch().unwrap();
        let error = LabError::Environment {
            what: "w".into(),
            remedy: "r".into(),
        };
        assert_eq!(because(error, &signals).to_string(), "w; r");
    }
}
