//! `pagetoll bill`: makes a bill and prints it.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use pagetoll_backend::Stopped;
use pagetoll_bill::Bill;
use pagetoll_fix::FixError;
use pagetoll_fix::build::{Order, build};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::{Surroundings, host};
use pagetoll_lab::routes::pin;
use pagetoll_lab::{Billed, Request};
use pagetoll_live::routes::pin as live_pin;
use pagetoll_sim::routes as billing;
use pagetoll_sim::routes::demand as sim_demand;
use pagetoll_sim::routes::pin as sim_pin;

use super::deliver::deliver;
use super::{in_lab, on_this_host};
use crate::args::{BillArgs, Verbosity};
use crate::failure::Outcome;
use crate::request::{BillRequest, Kernel, Origin, Work, command_line};

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
        Work::Lab(request, kernels) => {
            in_lab::run(verbosity, |here| on_kernels(request, kernels, here))
        }
        Work::Sim(request, timeline) => {
            if let Some(timeline) = timeline {
                timeline.write(request)?;
            }
            Ok(Billed {
                bill: billing::bill(request)?,
                timings: Vec::new(),
            })
        }
        Work::Pin(request) => in_lab::run(verbosity, |here| pin::bill(request, here)),
        Work::DemandSim(request) => Ok(Billed {
            bill: sim_demand::bill(request)?,
            timings: Vec::new(),
        }),
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

/// Bills the same order on one kernel after the other.
fn on_kernels(
    request: &Request,
    kernels: &[Kernel],
    here: &Surroundings<'_>,
) -> Result<Billed, FixError> {
    let mut bills = Vec::new();
    let mut timings = Vec::new();
    for kernel in kernels {
        let mut request = request.clone();
        let folder = |logs: PathBuf| {
            if kernels.len() > 1 {
                logs.join(plain(&kernel.name))
            } else {
                logs
            }
        };
        request.keep_logs = request.keep_logs.map(folder);
        request.kernel = obtained(&kernel.origin, request.freshness, here)?;
        let billed = pagetoll_lab::bill(&request, here)?;
        timings.extend(billed.timings);
        bills.push((kernel.name.clone(), billed.bill));
    }
    let is_fix = matches!(
        kernels,
        [Kernel {
            origin: Origin::Fix(_),
            ..
        }]
    );
    let bill = match bills.as_slice() {
        [(kernel, bill)] if is_fix => Some(bill.clone().on_kernel(kernel)),
        [(_, bill)] => Some(bill.clone()),
        _ => Bill::side_by_side(bills),
    };
    // The command line has at least the default kernel.
    let bill = bill.ok_or(Stopped)?;
    Ok(Billed { bill, timings })
}

/// A folder's name of a kernel's.
fn plain(name: &str) -> String {
    name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c),
        "_",
    )
}

/// A kernel that the lab obtains as it is, or one that is built first.
fn obtained(
    origin: &Origin,
    freshness: Freshness,
    here: &Surroundings<'_>,
) -> Result<KernelSource, FixError> {
    match origin {
        Origin::Lab(source) => Ok(source.clone()),
        Origin::Fix(spec) => {
            let order = Order {
                spec: spec.as_ref().clone(),
                source: None,
                freshness,
                jobs: host::cpus(),
            };
            let built = build(&order, here)?;
            Ok(KernelSource::Built(Box::new(built.kernel)))
        }
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
