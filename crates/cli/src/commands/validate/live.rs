//! `pagetoll validate --live`: demand paging billed on this host, beside the model with a table of this host.

use anyhow::Result;
use pagetoll_backend::{Backend as _, Error};
use pagetoll_bill::spec::{DemandSpec, Placement};
use pagetoll_bill::{Backend, Draft, HostLoad, Mechanism, Route, Spec};
use pagetoll_cost::CostTable;
use pagetoll_live::primitives;
use pagetoll_live::{Live, host};
use pagetoll_sim::costs;
use pagetoll_sim::routes::Samples;
use pagetoll_sim::validate::live::{Coverage, Point, compare, median_error};
use pagetoll_units::Pages;
use serde::Serialize;

use crate::args::{ValidateArgs, Verbosity};
use crate::commands::idle::BusyHost;
use crate::commands::watched::watched;
use crate::commands::{calibrate, write_list};
use crate::failure::Outcome;
use crate::output::Destination;
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, Table};

const VCPUS: [u32; 4] = [1, 2, 3, 4];
const BATCHES: [u32; 4] = [1, 4, 16, 64];
/// Pages of each vCPU: enough for a rate, few enough for all orders within minutes.
const PAGES: u64 = 4096;
const RUNS: u32 = 5;
/// Machines that the table may stand for.
const SAMPLES: Samples = Samples { count: 20, seed: 1 };

/// The comparison in JSON.
#[derive(Serialize)]
struct Compared<'a> {
    costs: &'a str,
    summary: &'a str,
    host_load: Option<HostLoad>,
    median_error: Option<f64>,
    coverage: Coverage,
    points: &'a [Point],
}

/// Measures, bills, models, and prints the comparison.
pub(super) fn run(
    args: &ValidateArgs,
    destination: &Destination,
    verbosity: Verbosity,
) -> Result<Outcome> {
    let prepared = Live.prepare(&spec(args))?;
    let asked = args.costs.as_ref();
    let asked = asked.map(|asked| costs::find(asked).map_err(Error::from));
    let asked = asked.transpose()?;
    let busy = BusyHost::new(args.busy);
    busy.try_host()?;
    let costs = asked.map_or_else(|| table(busy, verbosity), Ok)?;
    let draft = watched(verbosity, |context| prepared.bill(context))?.draft;
    busy.check(draft.inputs.host_load)?;
    let points = compare(&draft, &costs, Placement::Together, SAMPLES).map_err(Error::from)?;
    let compared = Compared {
        costs: &costs.name,
        summary: &costs.summary,
        host_load: draft.inputs.host_load,
        median_error: median_error(&points),
        coverage: Coverage::new(&points),
        points: &points,
    };
    write_list(document(&draft, &compared), &compared, destination)?;
    Ok(Outcome::Success)
}

/// A table that is measured now.
fn table(busy: BusyHost, verbosity: Verbosity) -> Result<CostTable> {
    let found = calibrate::measured(primitives::DEFAULT_ROUNDS, busy, verbosity)?;
    let text = calibrate::table_text("this-host", &found)?;
    CostTable::parse("this-host", &text).map_err(|error| Error::bad_input(error.to_string()).into())
}

/// Threads are put where the model has them: vCPUs on CPUs in turn, the reader on the first vCPU's.
fn spec(args: &ValidateArgs) -> Spec {
    let both =
        |mechanism: &Mechanism| mechanism.runs_on(Backend::Live) && mechanism.runs_on(Backend::Sim);
    let mechanisms = Route::Demand.mechanisms().filter(both);
    Spec {
        pages: Some(Pages(args.pages.unwrap_or(PAGES))),
        batches: Some(BATCHES.to_vec()),
        mechanisms: mechanisms
            .map(|mechanism| mechanism.name().to_owned())
            .collect(),
        runs: Some(args.runs.unwrap_or(RUNS)),
        demand: DemandSpec {
            vcpus: Some(VCPUS.to_vec()),
            placement: Some(Placement::Together),
            ..DemandSpec::default()
        },
        ..Spec::new(Route::Demand)
    }
}

fn document(draft: &Draft, compared: &Compared<'_>) -> Document {
    let of = |part: &str| draft.stack.get(part).cloned().unwrap_or_default();
    let mut facts = vec![
        Fact::new(
            "cost table",
            format!("{}: {}", compared.costs, compared.summary),
        ),
        Fact::new("cpu", of("cpu")),
        Fact::new("linux", of("linux")),
        Fact::new(
            "threads",
            "vCPUs pinned in turn, one reader on the CPU of the first",
        ),
        Fact::new("median error of predictions", verdict(compared)),
        Fact::new("predictions", coverage(compared.coverage)),
    ];
    facts.extend(load(compared.host_load));
    Document {
        title: "Demand paging on this host and in the model".to_owned(),
        sections: vec![
            Section::facts("", facts),
            Section::table(
                "Pages populated per second, all vCPUs together",
                points(compared.points),
            ),
        ],
    }
}

/// The load while the bill was made, and a warning of a busy host.
fn load(load: Option<HostLoad>) -> Vec<Fact> {
    let said = load.map(|load| Fact::new("host load", host::said(load)));
    let busy = load.filter(HostLoad::is_busy);
    let warning = "the host was busy: measured rates are too low, and say nothing of the model";
    let warning = busy.map(|_| Fact::new("warning", warning));
    said.into_iter().chain(warning).collect()
}

fn coverage(coverage: Coverage) -> String {
    let Coverage {
        predictions,
        inside,
    } = coverage;
    format!("{inside} of {predictions} inside 90 %, the model's own error included")
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
        Column::left("mechanism"),
        Column::right("vCPUs"),
        Column::right("batch"),
        Column::right("measured"),
        Column::right("slowest to fastest run"),
        Column::right("modelled"),
        Column::right("90 %"),
        Column::left("inside"),
        Column::right("error"),
        Column::left("counts as"),
    ]);
    for point in points {
        let range = |low: f64, high: f64| format!("{low:.0} to {high:.0}");
        table.row([
            point.mechanism.to_string(),
            point.vcpus.to_string(),
            point.batch.to_string(),
            format!("{:.0}", point.measured),
            range(point.runs.low, point.runs.high),
            format!("{:.0}", point.modelled),
            point
                .interval
                .map(|interval| range(interval.low, interval.high))
                .unwrap_or_default(),
            if point.inside { "yes" } else { "no" }.to_owned(),
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
