//! `pagetoll validate --live`: demand paging billed on this host, beside the model with a table of this host.

use std::env;

use anyhow::Result;
use pagetoll_bill::cost::Host;
use pagetoll_bill::{Backend, Bill, Order, Route};
use pagetoll_live::pager;
use pagetoll_live::routes::demand::{self, LIMITS, Request, primitives};
use pagetoll_sim::contention::demand::{Mechanism, Pinning};
use pagetoll_sim::routes::Samples;
use pagetoll_sim::validate::live::{Point, compare, median_error};
use pagetoll_units::Pages;
use serde::Serialize;

use crate::args::{ListFormat, ValidateArgs, Verbosity};
use crate::commands::{calibrate, on_this_host, pretty_json};
use crate::failure::{Failure, Outcome};
use crate::hosts;
use crate::output;
use crate::render::document::{Document, Section};
use crate::render::table::{Align, Table};
use crate::render::text;
use crate::request::command_line;

const VCPUS: [usize; 4] = [1, 2, 3, 4];
const BATCHES: [u32; 4] = [1, 4, 16, 64];
/// Pages of each vCPU: enough for a rate, few enough for all orders within minutes.
const PAGES: u64 = 4096;
const RUNS: u32 = 5;
/// Machines that the table may stand for.
const SAMPLES: Samples = Samples { count: 20, seed: 1 };

/// What is printed as JSON.
#[derive(Serialize)]
struct Compared<'a> {
    host: &'a str,
    summary: &'a str,
    median_error: Option<f64>,
    points: &'a [Point],
}

/// Measures, bills, models, and prints the comparison.
pub(super) fn run(args: &ValidateArgs, verbosity: Verbosity) -> Result<Outcome> {
    let request = request(args)?;
    let host = table(args, verbosity)?;
    let bill = on_this_host::demand(&request, verbosity)?.bill;
    let points = compare(&bill, &host, (Pinning::Together, SAMPLES))
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    let compared = Compared {
        host: &host.name,
        summary: &host.summary,
        median_error: median_error(&points),
        points: &points,
    };
    output::print(&match args.format {
        ListFormat::Text => text::document(&document(&bill, &compared)),
        ListFormat::Json => pretty_json(&compared)?,
    })?;
    Ok(Outcome::Success)
}

/// The table that is asked for, or one that is measured now.
fn table(args: &ValidateArgs, verbosity: Verbosity) -> Result<Host> {
    if let Some(asked) = &args.host {
        return Ok(hosts::find(Some(asked), Route::Demand)?);
    }
    let found = on_this_host::primitives(primitives::DEFAULT_ROUNDS, verbosity)?;
    let text = calibrate::table_text("this-host", &found)?;
    Ok(Host::parse("this-host", &text)?)
}

/// Threads are put where the model has them: vCPUs on CPUs in turn, the reader on the first vCPU's.
fn request(args: &ValidateArgs) -> Result<Request> {
    let asked = Order {
        pages: Pages(args.pages.unwrap_or(PAGES)),
        batches: BATCHES.to_vec(),
        mechanisms: mechanisms(),
        runs: args.runs.unwrap_or(RUNS),
    };
    let order = Order::new((Route::Demand, Backend::Live), asked, LIMITS)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    let request = Request {
        order,
        vcpus: VCPUS.to_vec(),
        readers: 1,
        waiting: pager::Waiting::Poll,
        sharing: pager::Sharing::One,
        mode: pager::Mode::Missing,
        memory: demand::Memory::Anonymous,
        touch: demand::Touch::Write,
        sequence: demand::Sequence::Sequential,
        seed: 1,
        ring: demand::Ring::Three,
        pinning: demand::Pinning::Together,
        beside: None,
        command: command_line(env::args_os()),
    };
    Ok(request.validated()?)
}

/// What both the host and the model can do.
fn mechanisms() -> Vec<String> {
    let live = |mechanism: &Mechanism| *mechanism != Mechanism::ExitOnMissing;
    let both = Mechanism::ALL.into_iter().filter(live);
    both.map(|mechanism| mechanism.name().to_owned()).collect()
}

fn document(bill: &Bill, compared: &Compared<'_>) -> Document {
    let of = |part: &str| bill.stack.get(part).cloned().unwrap_or_default();
    let facts = vec![
        (
            "host table".to_owned(),
            format!("{}: {}", compared.host, compared.summary),
        ),
        ("cpu".to_owned(), of("cpu")),
        ("linux".to_owned(), of("linux")),
        (
            "threads".to_owned(),
            "vCPUs pinned in turn, one reader on the CPU of the first".to_owned(),
        ),
        ("median error of predictions".to_owned(), verdict(compared)),
    ];
    Document {
        title: "Demand paging on this host and in the model".to_owned(),
        sections: vec![
            Section::facts("", facts),
            Section::table(
                "Pages paged in for each second, all vCPUs together",
                points(compared.points),
            ),
        ],
    }
}

fn verdict(compared: &Compared<'_>) -> String {
    let predictions = compared.points.iter().filter(|point| !point.calibrates);
    match compared.median_error {
        Some(error) => format!("{:.0} % of {} points", 100.0 * error, predictions.count()),
        None => "no point could be compared".to_owned(),
    }
}

fn points(points: &[Point]) -> Table {
    let mut table = Table::new([
        ("mechanism", Align::Left),
        ("vCPUs", Align::Right),
        ("batch", Align::Right),
        ("measured", Align::Right),
        ("slowest to fastest run", Align::Right),
        ("modelled", Align::Right),
        ("90 % of samples", Align::Right),
        ("error", Align::Right),
        ("counts as", Align::Left),
    ]);
    for point in points {
        let range = |low: f64, high: f64| format!("{low:.0} to {high:.0}");
        table.row([
            point.mechanism.clone(),
            point.vcpus.to_string(),
            point.batch.to_string(),
            format!("{:.0}", point.measured),
            range(point.runs.low, point.runs.high),
            format!("{:.0}", point.modelled),
            point
                .interval
                .map(|interval| range(interval.low, interval.high))
                .unwrap_or_default(),
            format!("{:.0} %", 100.0 * point.error),
            if point.calibrates {
                "calibration"
            } else {
                "prediction"
            }
            .to_owned(),
        ]);
    }
    table
}
