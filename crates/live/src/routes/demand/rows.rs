//! From runs to rows. Pure.
//!
//! The cost of a page is what it costs the vCPU that touches it: the wall time over the pages of each vCPU. The rate
//! is that of all vCPUs together.

use std::collections::BTreeMap;
use std::time::Duration;

use pagetoll_bill::{Check, Role, Route, Row, Spread, System, Toll};
use pagetoll_units::Pages;

use super::order::{Memory, Request, Ring};
use super::place;
use super::run::Measured;
use super::{Lacking, Line, Mechanism, Outcome};
use crate::pager::{Counts, Sharing};

const OPERATION: &str = "page-in";
/// What the kernel's own test does; its program is called so.
const OF_KERNEL: &str = "demand_paging_test";

/// One row for each line.
pub(super) fn rows(request: &Request, lines: &[(Line, Outcome)]) -> Vec<Row> {
    let row = |(line, outcome): &(Line, Outcome)| {
        let mut row = empty_row(request, *line);
        match outcome {
            Ok(runs) => fill(&mut row, runs, (touching(request, lines, *line), request)),
            Err(Lacking { what, remedy }) => row.unavailable = Some(format!("{what}; {remedy}")),
        }
        row
    };
    lines.iter().map(row).collect()
}

/// One row for each line of the kernel's own test, from the rates of its runs.
pub(super) fn beside(request: &Request, lines: &[Line], rates: &[Vec<f64>]) -> Vec<Row> {
    let row = |(line, rates): (&Line, &Vec<f64>)| {
        let mut row = empty_row(request, *line);
        OF_KERNEL.clone_into(&mut row.operation);
        row.placement = None;
        let per_vcpu = 1e9 * line.vcpus as f64;
        row.set_runs(rates.iter().map(|rate| per_vcpu / rate).collect());
        row.set_rates(rates);
        row
    };
    lines.iter().zip(rates).map(row).collect()
}

fn empty_row(request: &Request, line: Line) -> Row {
    let name = line.mechanism.name();
    let known = Route::Demand.mechanism(name);
    let role = known.map_or(Role::Alternative, |known| known.role);
    let pages = Pages(line.vcpus as u64 * request.order.pages.get());
    let readers = readers(request, line);
    let number = |n: usize| u32::try_from(n).ok();
    Row {
        batch: line.batch,
        system: System::KvmGuest,
        vcpus: number(line.vcpus),
        readers: number(readers).filter(|readers| *readers > 0),
        ring: Some(request.ring.number()),
        placement: Some(place::describe(line.vcpus, readers, request.pinning)),
        ..Row::new(OPERATION, name, role, pages)
    }
}

/// At least one for each userfaultfd.
fn readers(request: &Request, line: Line) -> usize {
    match (line.mechanism, request.sharing) {
        (Mechanism::Uffd, Sharing::One) => request.readers,
        (Mechanism::Uffd, Sharing::PerRange) => request.readers.max(line.vcpus),
        _ => 0,
    }
}

/// What a page costs in each run, in nanoseconds of its vCPU.
fn costs(request: &Request, runs: &[Measured]) -> Vec<f64> {
    let pages = request.order.pages.get() as f64;
    runs.iter().map(|run| run.wall / pages).collect()
}

/// What touching pages that are there costs, with as many vCPUs, where that was billed too.
fn touching(request: &Request, lines: &[(Line, Outcome)], line: Line) -> Option<f64> {
    let same = |other: &Line| other.mechanism == Mechanism::Populated && other.vcpus == line.vcpus;
    let (_, outcome) = lines.iter().find(|(other, _)| same(other))?;
    let runs = outcome.as_ref().ok()?;
    Spread::of(&costs(request, runs)).map(|spread| spread.mean)
}

/// Fills in the figures. `context` is what touching costs, and the order.
fn fill(row: &mut Row, runs: &[Measured], context: (Option<f64>, &Request)) {
    let (touching, request) = context;
    let pages = row.pages.get() as f64;
    row.set_runs(costs(request, runs));
    let rates: Vec<f64> = runs.iter().map(|run| pages * 1e9 / run.wall).collect();
    row.set_rates(&rates);
    row.folios = runs
        .last()
        .map(|run| run.folios.clone())
        .unwrap_or_default();
    let counts = sum(runs);
    let tried = pages * runs.len() as f64;
    row.crossings = crossings(row, &counts, tried);
    row.crossings_per_page = (counts.faults > 0).then(|| counts.faults as f64 / tried);
    row.tolls = tolls(row, &counts, (touching, tried));
    row.checks = checks(runs, row);
}

fn sum(runs: &[Measured]) -> Counts {
    let mut counts = Counts::default();
    for run in runs {
        counts.add(&run.by_vcpus);
        counts.add(&run.by_readers);
    }
    counts
}

/// How the faults of a page were delivered, by kind; kinds that did not occur are left out.
fn crossings(row: &Row, counts: &Counts, pages: f64) -> BTreeMap<String, f64> {
    let messages = if row.readers.is_some() {
        counts.faults
    } else {
        0
    };
    let kinds = [
        ("uffd-message", messages),
        ("exit-reported", counts.reported),
        ("exit-decoded", counts.decoded),
        ("exit-mmio", counts.completed),
        ("in-vain", counts.in_vain),
    ];
    let occurred = kinds.into_iter().filter(|(_, count)| *count > 0);
    occurred
        .map(|(kind, count)| (kind.to_owned(), count as f64 / pages))
        .collect()
}

/// The cost item by item; the last item is what is left. `context` is what touching costs, and the pages of all runs.
fn tolls(row: &Row, counts: &Counts, (touching, pages): (Option<f64>, f64)) -> Vec<Toll> {
    let Some(cost) = row.cost_per_page else {
        return Vec::new();
    };
    let touching = touching.filter(|_| row.mechanism != Mechanism::Populated.name());
    let touch = touching.map(|cost_each| Toll {
        name: "touch".into(),
        count_per_page: 1.0,
        cost_each,
    });
    let mut tolls: Vec<Toll> = touch.into_iter().chain(timed(counts, pages)).collect();
    let rest = cost - tolls.iter().map(Toll::cost_per_page).sum::<f64>();
    let faults = counts.faults as f64 / pages;
    let (name, count) = match row.mechanism.as_str() {
        "populated" => ("touch", 1.0),
        "kernel" => ("fault", 1.0),
        "uffd" => ("deliver-and-wake", faults),
        _ => ("exit-and-enter", faults),
    };
    let count = if count > 0.0 { count } else { 1.0 };
    tolls.push(Toll {
        name: name.into(),
        count_per_page: count,
        cost_each: rest / count,
    });
    tolls
}

/// What handlers have timed; what took no time is left out.
fn timed(counts: &Counts, pages: f64) -> impl Iterator<Item = Toll> {
    let found = counts.reported + counts.decoded;
    let items = [
        ("find-page", found, counts.resolving),
        ("read-source", counts.calls, counts.reading),
        ("install", counts.calls, counts.installing),
    ];
    let took_time = |item: &(&str, u64, Duration)| item.1 > 0 && !item.2.is_zero();
    items
        .into_iter()
        .filter(took_time)
        .map(move |(name, count, time)| Toll {
            name: name.to_owned(),
            count_per_page: count as f64 / pages,
            cost_each: time.as_secs_f64() * 1e9 / count as f64,
        })
}

fn checks(runs: &[Measured], row: &Row) -> Vec<Check> {
    let tried = row.pages.get() * runs.len() as u64;
    let vcpus = u64::from(row.vcpus.unwrap_or(1)) * runs.len() as u64;
    let total = |failed: fn(&Measured) -> u64| runs.iter().map(failed).sum();
    vec![
        Check::against_known("content-in-guest", tried, total(|run| run.wrong_in_guest)),
        Check::against_known("content-on-host", tried, total(|run| run.wrong_in_host)),
        Check::against_known("values-read", vcpus, total(|run| run.misread)),
    ]
}

/// What a reader of the bill should know.
pub(super) fn notes(request: &Request) -> Vec<String> {
    let mut notes = vec![
        format!(
            "{} memory, {:?} touches in {:?} order (seed {}), guest in ring {}; {} faults",
            request.memory,
            request.touch,
            request.sequence,
            request.seed,
            request.ring.number(),
            match request.mode {
                crate::pager::Mode::Missing => "missing",
                crate::pager::Mode::Minor => "minor",
            }
        )
        .to_lowercase(),
    ];
    if request.ring == Ring::Zero {
        notes.push(
            "in ring 0, a host without hardware virtualisation emulates each of the guest's instructions".into(),
        );
    }
    if request.beside.is_some() {
        notes.push(
            "demand_paging_test is the kernel's own: its time begins before its threads are made, its guest maps memory by \
             pages of 4 KiB and not of 2 MiB, and it verifies nothing"
                .into(),
        );
    }
    if matches!(request.memory, Memory::Hugetlb2m | Memory::Hugetlb1g) {
        notes.push(format!(
            "a fault brings in at least a page of {} KiB, whatever the batch",
            request.memory.page_size() / 1024
        ));
    }
    notes
}

#[cfg(test)]
#[path = "rows/tests.rs"]
mod tests;
