//! From runs to rows. Pure.
//!
//! The cost of a page is what it costs the vCPU that touches it: the wall time over the pages of each vCPU. The rate
//! is that of all vCPUs together.

mod tolls;

use std::collections::BTreeMap;

use pagetoll_bill::{Check, Role, Route, Row, System};
use pagetoll_units::Pages;

use super::line::{Lacking, Line, Outcome};
use super::mechanism::Mechanism;
use super::request::Request;
use super::run::Measured;
use super::run::place;
use crate::pager::{Counts, Sharing};
use crate::vm::{Memory, Ring};
use tolls::Turn;

const OPERATION: &str = "page-in";
/// The operation of the kernel's own test, and its program.
const OF_KERNEL: &str = "demand_paging_test";

/// The rows of a bill, and notes about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

/// One row for each line.
pub(super) fn rows(request: &Request, lines: &[(Line, Outcome)]) -> Rows {
    let mut all = Rows::default();
    for (line, outcome) in lines {
        let mut row = empty_row(request, *line);
        match outcome {
            Ok(runs) => {
                let touching = touching(request, lines, *line);
                let unresolved = fill(&mut row, request, *line, runs, touching.as_deref());
                all.notes
                    .extend(unresolved.map(|why| format!("{line}: {why}")));
            }
            Err(Lacking { what, remedy }) => row.unavailable = Some(format!("{what}; {remedy}")),
        }
        all.rows.push(row);
    }
    all
}

/// One row for each line of the kernel's own test, from the rates of its runs.
pub(super) fn selftest(request: &Request, lines: &[Line], rates: &[Vec<f64>]) -> Vec<Row> {
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

/// What touching populated pages costs in each run, with as many vCPUs, where the bill has it in another row.
fn touching(request: &Request, lines: &[(Line, Outcome)], line: Line) -> Option<Vec<f64>> {
    let ceiling =
        |other: &Line| other.mechanism == Mechanism::Populated && other.vcpus == line.vcpus;
    let (found, outcome) = lines.iter().find(|(other, _)| ceiling(other))?;
    let runs = outcome.as_ref().ok().filter(|_| *found != line)?;
    Some(costs(request, runs))
}

/// Fills in the figures; returns which item is not resolved.
fn fill(
    row: &mut Row,
    request: &Request,
    line: Line,
    runs: &[Measured],
    touching: Option<&[f64]>,
) -> Option<String> {
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
    row.checks = checks(runs, row);
    let turns: Vec<Turn> = (0..)
        .zip(costs(request, runs))
        .map(|(turn, cost)| Turn {
            cost,
            timed: tolls::timed(&runs[turn].counts(), pages)
                .map(|toll| toll.cost_per_page())
                .sum(),
            touch: touching.and_then(|touching| touching.get(turn)).copied(),
        })
        .collect();
    let items = tolls::items(line.mechanism, &turns, &counts, tried);
    row.tolls = items.tolls;
    items.unresolved
}

fn sum(runs: &[Measured]) -> Counts {
    let mut counts = Counts::default();
    runs.iter().for_each(|run| counts.add(&run.counts()));
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

/// How the bill was ordered, and limits of what it shows.
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
            "a fault populates at least a page of {} KiB, whatever the batch",
            request.memory.page_size() / 1024
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
