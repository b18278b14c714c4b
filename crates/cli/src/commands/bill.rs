//! `pagetoll bill`: makes a bill and prints it.

use std::env;
use std::io::{self, Write};
use std::time::SystemTime;

use anyhow::Result;
use pagetoll_bill::Bill;
use pagetoll_lab::{Billed, pin};
use pagetoll_live::pin as live_pin;
use pagetoll_systems::billing;
use pagetoll_systems::vfio::billing as sim_pin;

use super::deliver::deliver;
use super::{in_lab, on_this_host};
use crate::args::{BillArgs, Verbosity};
use crate::failure::Outcome;
use crate::request::{BillRequest, Work, command_line};

/// Makes a bill and prints it.
pub(crate) fn run(args: BillArgs, verbosity: Verbosity) -> Result<Outcome> {
    let request = BillRequest::new(args, command_line(env::args_os()))?;
    let mut billed = make(&request.work, verbosity)?;
    complete(&mut billed.bill, &request.backend_reason);
    if verbosity != Verbosity::Quiet {
        // A closed stderr does not spoil a bill.
        let _ = io::stderr().write_all(summary(&billed).as_bytes());
    }
    deliver(&billed.bill, request.format, request.output.as_deref())
}

/// Makes the bill on its backend.
fn make(work: &Work, verbosity: Verbosity) -> Result<Billed> {
    match work {
        Work::Lab(request) => in_lab::run(verbosity, |here| pagetoll_lab::bill(request, here)),
        Work::Sim(request) => Ok(Billed {
            bill: billing::bill(request)?,
            timings: Vec::new(),
        }),
        Work::Pin(request) => in_lab::run(verbosity, |here| pin::bill(request, here)),
        Work::PinSim(request) => Ok(Billed {
            bill: sim_pin::bill(request)?,
            timings: Vec::new(),
        }),
        Work::PinLive(request) => Ok(Billed {
            bill: live_pin::bill(request),
            timings: Vec::new(),
        }),
        Work::Demand(request) => on_this_host::demand(request, verbosity),
    }
}

/// Adds what only the command line knows: why this backend, and the time.
fn complete(bill: &mut Bill, backend_reason: &str) {
    backend_reason.clone_into(&mut bill.backend_reason);
    bill.provenance.when = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
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
}
