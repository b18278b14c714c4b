//! The pin route on this CPU: the loops that pin and account pages, over descriptors of their real size.
//!
//! 64 bytes describe a page (`sizeof(struct page)` on x86-64), 8 GiB are 2 Mi descriptors, 128 MiB of them: more than any
//! cache. Each mechanism does what its loop in the model of VFIO does: finds the pages of an entry, adds to the folio's pin
//! count, writes page pointers into a batch, checks that they go on where the run ends, and accounts them. What the loops
//! leave behind is compared with the expected state.
//!
//! Not here: page-table walks, locks, the IOMMU, system calls. So a ratio between mechanisms is one between loops, and
//! larger than that of the whole `MAP_DMA`, of which the loops are a part.

mod descriptor;
mod loops;
mod request;

use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::route::Pin;
use pagetoll_bill::{Check, Draft, Figures, HostLoad, Operation, Route, Row, RowKey, System, Toll};
use pagetoll_units::Pages;

use self::descriptor::{Memory, Pinned};
use self::loops::{Loop, loop_of};
use self::request::FolioSize;
pub(crate) use self::request::Request;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::turns::turns;

const PHASE: &str = "running the pinning loops";

/// Measures the loops over every folio that was ordered. Runs take turns over the whole time of the bill.
///
/// # Errors
/// A stop, or a host without /proc.
pub(crate) fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    let watch = Watch::begin()?;
    let mut shapes: Vec<Shape> = request
        .sizes
        .iter()
        .map(|size| Shape::new(request, *size))
        .collect();
    let runs = request.order.runs;
    let steps = u64::from(runs) * shapes.len() as u64;
    let mut phase = context.progress.begin_timed(PHASE, steps);
    let mut scheduled = Scheduled::default();
    for round in 0..runs {
        for shape in turns(round, &mut shapes) {
            phase.step(&format!("run {} of {}", round + 1, shape.size.folio));
            scheduled += shape.run(round, context.stop)?;
        }
    }
    let load = watch.end_of(scheduled)?;
    let rows = shapes.into_iter().flat_map(Shape::rows).collect();
    Ok(Billed {
        draft: draft(request, rows, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

fn draft(request: &Request, rows: Vec<Row>, load: HostLoad) -> Draft {
    let notes = [
        "the loops alone, over descriptors of 64 bytes: no page-table walk, no IOMMU, no system call",
        "CPU time of the thread; published for batched accounting (vfio, May 2025): 33,814 us and 15,635 us for 8 GiB of 2 MiB pages, 2.16x, of all of vfio_pin_map_dma",
    ];
    let notes = notes.map(str::to_owned);
    let stack = host::stack();
    host::draft(Route::Pin, stack, &request.order, rows, notes, load)
}

fn key(mechanism: Pin, size: FolioSize) -> RowKey {
    RowKey {
        folio: Some(size.folio),
        ..RowKey::new(Operation::Map, mechanism, System::Native)
    }
}

/// Folios of one size, and the loops over them.
struct Shape {
    size: FolioSize,
    /// Whole folios only, at least one.
    pages: u64,
    series: Vec<Series>,
}

impl Shape {
    fn new(request: &Request, size: FolioSize) -> Self {
        let mechanisms = request.order.of::<Pin>().into_iter();
        let series = mechanisms.filter_map(|mechanism| Series::new(mechanism, size));
        Self {
            size,
            pages: request.order.pages.get().div_ceil(size.pages) * size.pages,
            series: series.collect(),
        }
    }

    /// Runs each loop once, over descriptors that the first pass of one has faulted in.
    fn run(&mut self, round: u32, stop: &Stop) -> Result<Scheduled, LiveError> {
        let mut memory = Memory::new(self.pages, self.size.pages);
        if let Some(first) = self.series.first() {
            (first.pin)(&mut memory);
            memory.release();
        }
        let mut scheduled = Scheduled::default();
        for series in turns(round, &mut self.series) {
            stop.check()?;
            scheduled += series.run(&mut memory);
        }
        Ok(scheduled)
    }

    fn rows(self) -> Vec<Row> {
        let rows = self.series.into_iter().map(|series| series.row(self.pages));
        rows.collect()
    }
}

/// The runs of a loop.
struct Series {
    key: RowKey,
    pin: Loop,
    /// CPU time of a page, in nanoseconds.
    costs: Vec<f64>,
    wrong: u64,
    last: Pinned,
}

impl Series {
    /// `None` where the mechanism is no loop.
    fn new(mechanism: Pin, size: FolioSize) -> Option<Self> {
        Some(Self {
            key: key(mechanism, size),
            pin: loop_of(mechanism)?,
            costs: Vec::new(),
            wrong: 0,
            last: Pinned::default(),
        })
    }

    fn run(&mut self, memory: &mut Memory) -> Scheduled {
        let began = Scheduled::of_thread();
        self.last = (self.pin)(memory);
        let taken = Scheduled::of_thread() - began;
        self.wrong += memory.wrong_after(self.last);
        memory.release();
        self.costs
            .push(taken.ran.as_secs_f64() * 1e9 / memory.pages() as f64);
        taken
    }

    fn row(self, pages: u64) -> Row {
        let tried = pages * self.costs.len() as u64;
        let figures = Figures::of_runs(self.costs).map(|figures| Figures {
            tolls: vec![turns_of(figures.cost_per_page, self.last, pages)],
            ..figures
        });
        let check = Check::against_known("pin-counts", tried, self.wrong);
        Row::new(self.key, Pages(pages), figures).with_checks(vec![check])
    }
}

/// The only toll: the turns of the loop.
fn turns_of(cost: f64, pinned: Pinned, pages: u64) -> Toll {
    let count_per_page = pinned.turns as f64 / pages as f64;
    Toll::new("turn", count_per_page, cost / count_per_page)
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::RouteMechanism;

    use super::*;
    use crate::routes::pin::request::SIZES;

    fn loops() -> impl Iterator<Item = (Pin, Loop)> {
        let all = Pin::ALL.iter();
        all.filter_map(|&mechanism| Some((mechanism, loop_of(mechanism)?)))
    }

    #[test]
    fn every_loop_leaves_the_expected_counts() {
        for size in SIZES.iter().filter(|size| size.pages <= 512) {
            let mut memory = Memory::new(4096, size.pages);
            for (mechanism, _) in loops() {
                let mut series = Series::new(mechanism, *size).unwrap();
                series.run(&mut memory);
                series.run(&mut memory);
                let row = series.row(4096);
                assert_eq!(row.checks[0].failed, 0, "{}", row.key);
                assert_eq!(
                    (row.checks[0].tried, row.figures().unwrap().runs.len()),
                    (8192, 2)
                );
            }
        }
    }

    #[test]
    fn a_count_that_is_missing_is_found() {
        let mut memory = Memory::new(1024, 512);
        let pinned = loop_of(Pin::PerPage).unwrap()(&mut memory);
        assert_eq!(memory.wrong_after(pinned), 0);
        memory.release();
        assert!(memory.wrong_after(pinned) > 0);
    }

    #[test]
    fn turns_are_fewer_the_more_a_turn_takes() {
        let turns = |mechanism: Pin| {
            let mut memory = Memory::new(1 << 18, 1 << 18);
            loop_of(mechanism).unwrap()(&mut memory).turns
        };
        assert_eq!(turns(Pin::PerPage), 1 << 18);
        assert_eq!(turns(Pin::PerFolio), 512);
        assert_eq!(turns(Pin::Range), 1);
    }

    #[test]
    fn a_mechanism_of_this_backend_is_a_loop_or_takes_a_device() {
        for mechanism in Pin::ALL.iter().copied() {
            let takes_device = pagetoll_pv::pin::interface(mechanism).is_some();
            assert_eq!(loop_of(mechanism).is_none(), takes_device);
        }
    }
}
