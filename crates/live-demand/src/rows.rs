//! From runs to rows. Pure.
//!
//! The cost of a page is what it costs the vCPU that touches it: the wall time over the pages of each vCPU. The rate
//! is that of all vCPUs together.

mod tolls;

use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{Ring, Sharing};
use pagetoll_bill::{Check, Crossings, Figures, Operation, Row, RowKey, System, Toll, Unavailable};
use pagetoll_units::Pages;

use super::line::{Line, LineRuns, Measured, SelftestRuns};
use super::request::Request;
use pagetoll_live_host::guest_memory::{is_hugetlb, page_size};
use pagetoll_live_host::vcpus::place;
use pagetoll_pager::Counts;
use tolls::Turn;

/// One row for each line.
pub(super) fn rows(request: &Request, lines: &[LineRuns]) -> Vec<Row> {
    let row = |LineRuns { line, outcome }: &LineRuns| {
        let ordered = OrderedLine {
            request,
            line: *line,
        };
        match outcome {
            Ok(runs) => ordered.measured(runs, ordered.touching(lines).as_deref()),
            Err(lacking) => {
                let reason = format!("{}; {}", lacking.what, lacking.remedy);
                ordered.row(Err(Unavailable(reason)))
            }
        }
    };
    lines.iter().map(row).collect()
}

/// One row for each line of the kernel's own test, from the rates of its runs.
pub(super) fn selftests(request: &Request, all: &[SelftestRuns]) -> Vec<Row> {
    let row = |SelftestRuns { line, rates }: &SelftestRuns| {
        let ordered = OrderedLine {
            request,
            line: *line,
        };
        let per_vcpu = 1e9 * f64::from(line.vcpus);
        let costs = rates.iter().map(|rate| per_vcpu / rate).collect();
        let figures = Figures::of_runs(costs).map(|figures| figures.with_rate(line.vcpus));
        let key = ordered.key(Operation::DemandPagingTest);
        Row::new(key, ordered.pages(), figures)
    };
    all.iter().map(row).collect()
}

/// A line of an order.
struct OrderedLine<'a> {
    request: &'a Request,
    line: Line,
}

impl OrderedLine<'_> {
    fn key(&self, operation: Operation) -> RowKey {
        let readers = Some(self.readers());
        RowKey {
            batch: self.line.batch,
            vcpus: Some(self.line.vcpus),
            readers: readers.filter(|readers| *readers > 0),
            ring: Some(match self.request.ring {
                Ring::Zero => 0,
                Ring::Three => 3,
            }),
            ..RowKey::new(operation, self.line.mechanism, System::KvmGuest)
        }
    }

    /// Pages of all vCPUs.
    fn pages(&self) -> Pages {
        Pages(u64::from(self.line.vcpus) * self.line.pages)
    }

    /// At least one for each userfaultfd.
    fn readers(&self) -> u32 {
        match (self.line.mechanism, self.request.sharing) {
            (Demand::Uffd, Sharing::One) => self.request.readers,
            (Demand::Uffd, Sharing::PerVcpu) => self.request.readers.max(self.line.vcpus),
            _ => 0,
        }
    }

    fn row(&self, result: Result<Figures, Unavailable>) -> Row {
        let placement = self.request.placement;
        let (vcpus, readers) = (self.line.vcpus as usize, self.readers() as usize);
        Row {
            placement: Some(place::describe(vcpus, readers, placement)),
            ..Row::new(self.key(Operation::PageIn), self.pages(), result)
        }
    }

    fn measured(&self, runs: &[Measured], touching: Option<&[f64]>) -> Row {
        let figures = Figures::of_runs(self.costs(runs)).map(|figures| Figures {
            crossings: self.crossings(runs),
            tolls: self.tolls(runs, touching),
            ..figures.with_rate(self.line.vcpus)
        });
        let last = runs.last().map(|run| run.folios.clone());
        Row {
            folios: last.unwrap_or_default(),
            checks: self.checks(runs),
            ..self.row(figures)
        }
    }

    /// Cost of a page in each run, in nanoseconds of its vCPU.
    fn costs(&self, runs: &[Measured]) -> Vec<f64> {
        let pages = self.line.pages as f64;
        runs.iter().map(|run| run.wall / pages).collect()
    }

    /// Cost of touching populated pages in each run, with as many vCPUs, where the bill has it in another row.
    fn touching(&self, lines: &[LineRuns]) -> Option<Vec<f64>> {
        let is_ceiling =
            |other: &Line| other.mechanism == Demand::Populated && other.vcpus == self.line.vcpus;
        let found = lines.iter().find(|other| is_ceiling(&other.line))?;
        let runs = found.outcome.as_ref().ok()?;
        (found.line != self.line).then(|| self.costs(runs))
    }

    fn tolls(&self, runs: &[Measured], touching: Option<&[f64]>) -> Vec<Toll> {
        let costs = self.costs(runs);
        let turn = |number: usize| Turn {
            cost: costs[number],
            counts: runs[number].counts(),
            touch: touching.and_then(|touching| touching.get(number)).copied(),
        };
        let turns: Vec<Turn> = (0..runs.len()).map(turn).collect();
        tolls::tolls(self.line.mechanism, &turns, self.pages().get() as f64)
    }

    /// Deliveries of a page's faults, by kind; kinds that did not occur are left out.
    fn crossings(&self, runs: &[Measured]) -> Option<Crossings> {
        let pages = self.pages().get() as f64 * runs.len() as f64;
        let counts = sum(runs);
        let messages = if self.readers() > 0 { counts.faults } else { 0 };
        let kinds = [
            ("uffd-message", messages),
            ("exit-reported", counts.reported),
            ("exit-decoded", counts.decoded),
            ("exit-mmio", counts.completed),
            ("in-vain", counts.spurious),
        ];
        let occurred = kinds.into_iter().filter(|(_, count)| *count > 0);
        let per_page = |(kind, count): (&str, u64)| (kind.to_owned(), count as f64 / pages);
        (counts.faults > 0).then(|| Crossings {
            per_page: counts.faults as f64 / pages,
            by_kind: occurred.map(per_page).collect(),
        })
    }

    fn checks(&self, runs: &[Measured]) -> Vec<Check> {
        let pages = self.pages().get() * runs.len() as u64;
        let vcpus = u64::from(self.line.vcpus) * runs.len() as u64;
        let total = |failed: fn(&Measured) -> u64| runs.iter().map(failed).sum();
        vec![
            Check::against_known("content-in-guest", pages, total(|run| run.wrong_in_guest)),
            Check::against_known("content-on-host", pages, total(|run| run.wrong_in_host)),
            Check::against_known("values-read", vcpus, total(|run| run.misread)),
        ]
    }
}

fn sum(runs: &[Measured]) -> Counts {
    let mut counts = Counts::default();
    runs.iter().for_each(|run| counts.add(&run.counts()));
    counts
}

/// Options of the bill, and limits of its figures.
pub(super) fn notes(request: &Request) -> Vec<String> {
    let mut notes = vec![format!(
        "{} memory, {} touches in {} order (seed {}), guest in ring {}; {} faults",
        request.memory,
        request.access,
        request.sequence,
        request.seed,
        request.ring,
        request.faults
    )];
    if request.ring == Ring::Zero {
        notes.push(
            "in ring 0, a host without hardware virtualisation emulates each of the guest's instructions".into(),
        );
    }
    if request.compare_selftest.is_some() {
        notes.push(
            "demand_paging_test is the kernel's own: its time begins before its threads are made, its guest maps memory by \
             pages of 4 KiB and not of 2 MiB, and it verifies nothing"
                .into(),
        );
    }
    let fewer = |line: &Line| line.pages < request.order.pages.get();
    notes.extend(request.lines().into_iter().filter(fewer).map(|line| {
        format!(
            "{line}: {} pages of each vCPU, as each batch is a memslot and KVM has no more of them",
            line.pages
        )
    }));
    if is_hugetlb(request.memory) {
        notes.push(format!(
            "a fault populates at least a page of {} KiB, whatever the batch",
            page_size(request.memory) / 1024
        ));
    }
    notes
}

/// The limit of a bill whose vCPUs share CPUs, and the command that has a CPU for each.
pub(super) fn crowding(vcpus: u32, cpus: usize) -> Option<String> {
    (vcpus as usize > cpus).then(|| {
        format!(
            "warning: {vcpus} vCPUs on {cpus} CPUs: rows of more than {cpus} vCPUs include waiting for a CPU, and say nothing \
             of a host with a CPU for each; to model one: pagetoll bill demand --on sim --vcpus {vcpus}"
        )
    })
}

#[cfg(test)]
mod tests;
