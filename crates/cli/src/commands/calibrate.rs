//! `pagetoll calibrate`: makes a cost table for the simulator, from bills or by measuring this host.

mod this_host;
mod xen_guest;

use std::collections::BTreeMap;

use anyhow::Result;
use pagetoll_bill::{Bill, Route, Unit};
use pagetoll_cost::{Derived, Kind, Topology};
use pagetoll_sim::calibrate::figures;
use pagetoll_sim::routes::pin::calibrate as pin;
use serde::Serialize;

use super::{name_of, report};
use crate::args::{CalibrateArgs, Verbosity};
use crate::failure::{Failure, Outcome};
use crate::output;

pub(super) use this_host::{measured, table_text};

/// Makes the table that was asked for.
pub(crate) fn run(args: &CalibrateArgs, verbosity: Verbosity) -> Result<Outcome> {
    let text = match (args.this_host, pagetoll_live::routes::pv::is_xen_pv_guest()) {
        (false, _) => of_bills(args)?,
        (true, true) => {
            let name = args.name.as_deref().unwrap_or(this_host::NAME);
            let bills = xen_guest::bills(args, verbosity)?;
            toml::to_string(&of_xen(args, name, &bills)?)?
        }
        (true, false) => this_host::text(args, verbosity)?,
    };
    output::write(&text, args.output.as_deref())?;
    Ok(Outcome::Success)
}

/// The table that the bills give.
fn of_bills(args: &CalibrateArgs) -> Result<String> {
    let mut bills = Vec::new();
    for path in &args.bills {
        let bill = report::read(path)?;
        if figures(&bill).is_empty() && pin::kernels(std::slice::from_ref(&bill)).is_empty() {
            return Err(Failure::BadInput(format!(
                "{}: gives no figures; expected a bill of the lab, or by --on live of a Xen PV guest, with all mechanisms \
                 and batches 1 and larger, or one of the lab of route pin",
                name_of(path)
            ))
            .into());
        }
        bills.push(bill);
    }
    let default = bills.first().map_or("lab", |bill| bill.backend.name());
    let name = args.name.as_deref().unwrap_or(default);
    let table = match &args.kernel {
        _ if bills.iter().any(|bill| bill.route == Route::Pin) => of_pin(args, name, &bills)?,
        Some(kernel) => {
            return Err(Failure::BadInput(format!(
                "--kernel {kernel}: these bills have one kernel each; expected it with bills of route pin only"
            ))
            .into());
        }
        None => of_xen(args, name, &bills)?,
    };
    Ok(toml::to_string(&table)?)
}

/// The table of one machine, whose bills are all of one kind.
fn of_xen(args: &CalibrateArgs, name: &str, bills: &[Bill]) -> Result<Table, Failure> {
    let unit = bills.first().map_or(Unit::Instructions, |bill| bill.unit);
    if let Some(index) = bills.iter().position(|bill| bill.unit != unit) {
        return Err(Failure::BadInput(format!(
            "{}: is in {}; expected {unit}, as {}",
            name_of(&args.bills[index]),
            bills[index].unit,
            name_of(&args.bills[0]),
        )));
    }
    let table = table(name, unit, bills);
    let negative = table.figure.iter().find(|(_, figure)| figure.low < 0.0);
    negative.map_or(Ok(()), |(key, figure)| {
        Err(Failure::BadInput(format!(
            "{key} would be {} to {} {unit}: its rows differ by less than they vary ({}); expected bills with more --runs of an \
             idle machine",
            figure.low, figure.high, figure.source,
        )))
    })?;
    Ok(table)
}

/// The table of one of the kernels that are billed side by side; the first, unless another is asked for.
fn of_pin(args: &CalibrateArgs, name: &str, bills: &[Bill]) -> Result<Table, Failure> {
    if let Some(other) = bills.iter().find(|bill| bill.route != Route::Pin) {
        return Err(Failure::BadInput(format!(
            "a bill of route {} beside one of route pin; expected a table of its own for each machine",
            other.route.name()
        )));
    }
    let first = pin::kernels(bills).into_iter().next();
    let kernel = args.kernel.clone().or(first).unwrap_or_default();
    let derived = pin::figures(bills, &kernel)
        .map_err(|unsolved| Failure::BadInput(format!("calibrate: {unsolved}")))?;
    let qemu = bills.first().and_then(|bill| bill.stack.get("qemu"));
    let on = |kernel: &str| format!("Linux {kernel}, QEMU {}", qemu.map_or("?", String::as_str));
    let stack = on(&kernel);
    Ok(Table {
        name: name.to_owned(),
        summary: format!("VFIO type1, counted by the lab on 2 MiB folios of {stack}"),
        unit: Unit::Instructions,
        stack: versions([
            ("linux", Some(kernel.as_str())),
            ("qemu", qemu.map(String::as_str)),
        ]),
        topology: None,
        figure: derived
            .into_iter()
            .map(|derived| figure(derived, &stack))
            .collect(),
    })
}

/// A cost table as the file has it.
#[derive(Serialize)]
struct Table {
    name: String,
    summary: String,
    unit: Unit,
    /// Versions of what was billed: the simulator warns where its models are of others.
    stack: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Topology>,
    figure: BTreeMap<&'static str, Figure>,
}

#[derive(Serialize)]
struct Figure {
    value: f64,
    low: f64,
    high: f64,
    kind: Kind,
    source: String,
}

fn table(name: &str, unit: Unit, bills: &[Bill]) -> Table {
    let each = |bill: &Bill| {
        let of = stack(bill);
        figures(bill)
            .into_iter()
            .map(move |derived| figure(derived, &of))
            .collect::<Vec<_>>()
    };
    Table {
        name: name.to_owned(),
        summary: format!(
            "{} {}",
            match unit {
                Unit::Instructions => "counted by the lab on",
                Unit::Nanoseconds => "timed on a Xen PV host,",
            },
            bills.first().map(stack).unwrap_or_default()
        ),
        unit,
        stack: versions(["xen", "linux", "qemu"].map(|part| {
            let version = bills.first().and_then(|bill| bill.stack.get(part));
            (part, version.map(String::as_str))
        })),
        topology: None,
        figure: bills.iter().flat_map(each).collect(),
    }
}

/// Those components that a bill states.
fn versions<const N: usize>(parts: [(&str, Option<&str>); N]) -> BTreeMap<String, String> {
    let known = parts.into_iter();
    known
        .filter_map(|(part, version)| Some((part.to_owned(), version?.to_owned())))
        .collect()
}

fn figure(derived: Derived, stack: &str) -> (&'static str, Figure) {
    let source = match derived.kind {
        Kind::Measured => format!("pagetoll bill on {stack}: {}", derived.source),
        _ => derived.source.clone(),
    };
    figure_of(derived, source)
}

/// An entry of the table's `figure`.
fn figure_of(derived: Derived, source: String) -> (&'static str, Figure) {
    let figure = Figure {
        value: rounded(derived.value),
        low: rounded(derived.low),
        high: rounded(derived.high),
        kind: derived.kind,
        source,
    };
    (derived.key.name(), figure)
}

/// To a thousandth: of an instruction a hundredth of what another build of the guest's programs moves.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Versions of what a bill is of, in words.
fn stack(bill: &Bill) -> String {
    let part = |(name, part): (&str, &str)| Some(format!("{name} {}", bill.stack.get(part)?));
    let parts = [("Xen", "xen"), ("Linux", "linux"), ("QEMU", "qemu")];
    let parts: Vec<String> = parts.into_iter().filter_map(part).collect();
    parts.join(", ")
}
