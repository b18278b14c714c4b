//! From runs to rows: three of each line, one for each boundary. Pure.
//!
//! The cost of a page is the time until the boundary over the pages that it is about: those of the image, or of the working
//! set. A run's is that of the guest in the middle, a row's that of the run in the middle; all guests of all runs give the 95th
//! percentile.

use pagetoll_bill::route::Restore;
use pagetoll_bill::row::{KeptMemory, Restored, median};
use pagetoll_bill::{Check, Crossings, Figures, Operation, Row, RowKey, System, Toll, Unavailable};
use pagetoll_units::Pages;

use super::clones::Wrong;
use super::conversation::{CloneReport, Handled};
use super::image::ImageOrder;
use super::line::{Line, LineRuns, Measured};
use super::prediction::{Recorded, Replay};
use super::request::Request;
use pagetoll_live_host::limits::Lacking;

/// Share of the image that may be in memory of a lazy guest that touched nothing.
const UNTOUCHED: f64 = 0.01;

/// Boundary of a restore: its operation in bills.
const BOUNDARIES: [Operation; 3] = [
    Operation::FirstInstruction,
    Operation::SetResident,
    Operation::LastPage,
];

/// Three rows for each line.
pub(super) fn rows(
    request: &Request,
    recorded: &Recorded,
    eager_pages: u64,
    lines: &[LineRuns],
) -> Vec<Row> {
    let of_line = |runs: &LineRuns| {
        let ordered = OrderedLine {
            request,
            recorded,
            eager_pages,
            line: runs.line,
        };
        BOUNDARIES.map(|boundary| match &runs.outcome {
            Ok(measured) => ordered.row(boundary, measured),
            Err(Lacking { what, remedy }) => {
                let reason = Unavailable(format!("{what}; {remedy}"));
                Row::new(ordered.key(boundary), ordered.pages(boundary), Err(reason))
            }
        })
    };
    lines.iter().flat_map(of_line).collect()
}

/// A line of an order.
struct OrderedLine<'a> {
    request: &'a Request,
    recorded: &'a Recorded,
    /// Pages in memory of a guest that touched nothing and whose image was read.
    eager_pages: u64,
    line: Line,
}

impl OrderedLine<'_> {
    fn key(&self, operation: Operation) -> RowKey {
        let has_readers = match self.line.mechanism {
            Restore::Uffd
            | Restore::UffdPrefault
            | Restore::Replay
            | Restore::Continue
            | Restore::Hugetlb2m => true,
            Restore::Read
            | Restore::Map
            | Restore::MapWillneed
            | Restore::MapPopulate
            | Restore::KvmPreFault
            | Restore::Exit => false,
        };
        RowKey {
            batch: self.line.batch,
            vcpus: Some(self.line.vcpus),
            readers: has_readers.then_some(self.request.readers),
            cache: Some(self.line.cache),
            clones: Some(self.line.clones),
            ..RowKey::new(operation, self.line.mechanism, System::KvmGuest)
        }
    }

    /// Pages that a boundary is about.
    fn pages(&self, boundary: Operation) -> Pages {
        match boundary {
            Operation::SetResident => Pages(self.request.set.len() as u64),
            _ => self.request.order.pages,
        }
    }

    fn row(&self, boundary: Operation, measured: &Measured) -> Row {
        let pages = self.pages(boundary);
        let of_run = |run: &Vec<CloneReport>| {
            let times: Vec<f64> = run.iter().map(|report| time(boundary, report)).collect();
            median(&times).map(|time| time / pages.get() as f64)
        };
        let costs = measured.runs.iter().filter_map(of_run);
        let figures = Figures::of_runs(costs.collect()).map(|figures| Figures {
            restored: self.restored(boundary, measured).map(|restored| Restored {
                median: figures.cost_per_page * pages.get() as f64,
                ..restored
            }),
            crossings: (boundary == Operation::LastPage).then(|| self.crossings(measured)),
            tolls: match boundary {
                Operation::LastPage => self.tolls(measured, figures.cost_per_page),
                _ => Vec::new(),
            },
            ..figures
        });
        Row {
            checks: self.checks(boundary, measured),
            resident: match boundary {
                Operation::LastPage => measured.resident.clone(),
                _ => Vec::new(),
            },
            ..Row::new(self.key(boundary), pages, figures)
        }
    }

    fn restored(&self, boundary: Operation, measured: &Measured) -> Option<Restored> {
        let all = || measured.reports();
        let mut times: Vec<f64> = all().map(|report| time(boundary, report)).collect();
        let times = Restored::of_times(&mut times)?;
        match boundary {
            Operation::SetResident => Some(Restored {
                kept: kept(measured),
                filled_untouched: self.filled(measured),
                predicted: self.predicted(measured),
                ..times
            }),
            Operation::LastPage => Some(Restored {
                longest_stall: all().filter_map(|report| report.stall).reduce(f64::max),
                read_from_storage: all()
                    .all(|report| report.storage.is_some())
                    .then(|| mean(all(), |report| report.storage.unwrap_or(0) as f64)),
                cpu_time: Some(mean(all(), |report| report.cpu as f64)),
                ..times
            }),
            _ => Some(times),
        }
    }

    /// Share of the image in memory of a guest that touched nothing.
    fn filled(&self, measured: &Measured) -> Option<f64> {
        let untouched = measured.untouched?;
        Some(untouched.resident as f64 / self.request.bytes() as f64)
    }

    /// Messages or exits of a page, and faults of the process.
    fn crossings(&self, measured: &Measured) -> Crossings {
        let pages = self.request.order.pages.get() as f64;
        let per_page = |count: fn(&CloneReport) -> u64| {
            mean(measured.reports(), |report| count(report) as f64) / pages
        };
        let handled = match self.line.mechanism {
            Restore::Exit => "exit",
            _ => "uffd-message",
        };
        let kinds = [
            (handled, per_page(|report| report.handled.faults)),
            ("minor-fault", per_page(|report| report.minor_faults)),
            ("major-fault", per_page(|report| report.major_faults)),
        ];
        Crossings {
            per_page: match kinds[0].1 {
                0.0 => kinds[1].1 + kinds[2].1,
                handled => handled,
            },
            by_kind: kinds
                .into_iter()
                .filter(|(_, count)| *count > 0.0)
                .map(|(kind, count)| (kind.to_owned(), count))
                .collect(),
        }
    }

    /// Items of the last page's cost, of the guests of which it is the median. Handlers are timed; where one vCPU waits for one reader their times are parts of it.
    fn tolls(&self, measured: &Measured, cost: f64) -> Vec<Toll> {
        let pages = self.request.order.pages.get() as f64;
        let middle = middle(measured);
        let first = mean(middle.iter().copied(), |report| report.first as f64) / pages;
        let mut tolls = vec![Toll::once("before the first instruction", first)];
        let is_serial = self.line.vcpus == 1
            && (self.request.readers == 1 || self.line.mechanism == Restore::Exit)
            && self.line.mechanism != Restore::UffdPrefault;
        let item = |name, time: fn(&Handled) -> u64| {
            let of_middle = || middle.iter().copied();
            let calls = mean(of_middle(), |report| report.handled.calls as f64);
            let time = mean(of_middle(), |report| time(&report.handled) as f64);
            (time > 0.0 && calls > 0.0).then(|| Toll::new(name, calls / pages, time / calls))
        };
        if is_serial {
            tolls.extend(item("find-page", |handled| handled.finding));
            tolls.extend(item("read-source", |handled| handled.reading));
            tolls.extend(item("install", |handled| handled.installing));
        }
        let rest = match (is_serial, self.line.mechanism) {
            (true, Restore::Exit) => "touch, exit-and-enter",
            (true, Restore::Uffd | Restore::Replay | Restore::Continue | Restore::Hugetlb2m) => {
                "touch, deliver-and-wake"
            }
            _ => "touch, with its faults",
        };
        tolls.push(Toll::once(rest, cost - Toll::sum(&tolls)));
        tolls
    }

    fn checks(&self, boundary: Operation, measured: &Measured) -> Vec<Check> {
        match boundary {
            Operation::SetResident => self.laziness(measured).into_iter().collect(),
            Operation::LastPage => self.contents(measured),
            _ => Vec::new(),
        }
    }

    fn contents(&self, measured: &Measured) -> Vec<Check> {
        let guests = measured.runs.iter().map(Vec::len).sum::<usize>() as u64;
        let pages = self.request.order.pages.get() * guests;
        let vcpus = u64::from(self.line.vcpus) * guests;
        let wrong = Wrong::of(measured.reports());
        let control = measured.control;
        let check = Check::against_control;
        let mut checks = vec![
            check("content-on-host", pages, wrong.on_host, control.on_host),
            check("values-read", vcpus, wrong.misread, control.misread),
        ];
        // The guest knows the words of an image that was made alone.
        if matches!(self.request.image, ImageOrder::New(_)) {
            checks.insert(
                0,
                check("content-in-guest", pages, wrong.in_guest, control.in_guest),
            );
        }
        checks
    }

    /// A lazy mechanism leaves missing what is not touched; that a look at memory finds what is there, an eager one shows.
    fn laziness(&self, measured: &Measured) -> Option<Check> {
        if !self.line.mechanism.is_lazy() {
            return None;
        }
        let filled = measured.untouched?.resident / 4096;
        let all = self.request.order.pages.get();
        let failed = if filled as f64 > UNTOUCHED * all as f64 {
            filled
        } else {
            0
        };
        let name = "untouched-stays-missing";
        Some(Check::against_control(name, all, failed, self.eager_pages))
    }

    /// Cost of a page of the working set by a replay.
    fn predicted(&self, measured: &Measured) -> Option<f64> {
        if self.line.mechanism != Restore::Replay {
            return None;
        }
        let replay = |set, recorded| Replay {
            set,
            recorded,
            pages: self.request.order.pages.get(),
            batch: self.line.batch.into(),
        };
        let Recorded {
            runs,
            touched,
            partial,
        } = self.recorded;
        let costs = measured.rehearsals.costs(replay(touched, partial))?;
        let replay = replay(&self.request.set, runs);
        Some(replay.time(costs) / self.request.set.len() as f64)
    }
}

fn time(boundary: Operation, report: &CloneReport) -> f64 {
    let nanos = match boundary {
        Operation::FirstInstruction => report.first,
        Operation::SetResident => report.set,
        _ => report.last,
    };
    nanos as f64
}

/// Reports of the guests in the middle of the runs in the middle, by the time of the last page: of an even number, of two.
fn middle(measured: &Measured) -> Vec<&CloneReport> {
    let last = |report: &&CloneReport| report.last;
    let guests = measured.runs.iter().map(|run| {
        let mut guests: Vec<_> = run.iter().collect();
        guests.sort_by_key(last);
        in_the_middle(guests)
    });
    let mut runs: Vec<_> = guests.filter(|guests| !guests.is_empty()).collect();
    runs.sort_by_key(|guests| guests.iter().map(last).sum::<u64>() / guests.len() as u64);
    in_the_middle(runs).into_iter().flatten().collect()
}

/// The one or the two in the middle of a sorted list.
fn in_the_middle<T>(sorted: Vec<T>) -> Vec<T> {
    let skipped = sorted.len().saturating_sub(1) / 2;
    let count = sorted.len() - 2 * skipped;
    sorted.into_iter().skip(skipped).take(count).collect()
}

/// The mean over guests; 0 of none.
fn mean<'r>(
    reports: impl IntoIterator<Item = &'r CloneReport>,
    value: impl Fn(&CloneReport) -> f64,
) -> f64 {
    let (sum, count) = reports
        .into_iter()
        .fold((0.0, 0_u32), |(sum, count), report| {
            (sum + value(report), count + 1)
        });
    sum / f64::from(count.max(1))
}

fn kept(measured: &Measured) -> Option<KeptMemory> {
    let guests = measured.kept.len() as f64;
    let mean = |bytes: fn(&super::conversation::Kept) -> u64| {
        measured.kept.iter().map(bytes).sum::<u64>() as f64 / guests
    };
    (guests > 0.0).then(|| KeptMemory {
        pss: mean(|kept| kept.pss),
        private: mean(|kept| kept.private),
        page_cache: mean(|kept| kept.page_cache),
    })
}

/// Options of the bill, and limits of its figures.
pub(super) fn notes(request: &Request, recorded: &[(u64, u64)]) -> Vec<String> {
    let set = request.set.len();
    let mut notes = vec![format!(
        "image: {}; {} MiB; working set: {set} pages, {} order (seed {}), {} touches",
        match &request.image {
            ImageOrder::New(folder) => format!("made in {}", folder.display()),
            ImageOrder::File(path) => path.display().to_string(),
            ImageOrder::MappedRam { path, block, .. } => format!(
                "block {} of the mapped-ram file {}, extracted; what QEMU left out as zeroes is a hole",
                block.name,
                path.display()
            ),
        },
        request.bytes() >> 20,
        request.touch,
        request.seed,
        request.access,
    )];
    notes.push(
        "times count from the order to restore, when the machine is there and only its memory is missing; then the guest \
         reads the pages outside its working set in order, until the last"
            .into(),
    );
    if !recorded.is_empty() {
        let pages: u64 = recorded.iter().map(|(_, count)| count).sum();
        notes.push(format!(
            "replay: {pages} pages that another run recorded, of which {} % are touched again",
            request.overlap
        ));
    }
    notes
}

/// The limit of a bill whose guests share CPUs.
pub(super) fn crowding(cpus: usize) -> String {
    format!(
        "warning: rows of more than {cpus} guests or vCPUs include waiting for one of {cpus} CPUs"
    )
}

#[cfg(test)]
mod tests;
