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
use pagetoll_bill::{
    Backend, Check, Draft, Evidence, Figures, HostLoad, Inputs, Operation, Route, Row, RowKey,
    System, Toll, Unit,
};
use pagetoll_units::Pages;

use self::descriptor::Memory;
use self::loops::{Loop, Pinned, loop_of};
use self::request::FolioSize;
pub(crate) use self::request::Request;
use crate::LiveError;
use crate::cpu_time::thread_time;
use crate::host::{self, Watch};

/// Runs before those that count: the first one faults the descriptors in.
const WARM_UP: u32 = 1;

const PHASE: &str = "running the pinning loops";

/// Measures the loops over every folio that was ordered.
///
/// # Errors
/// A stop, or a host without /proc.
pub(crate) fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    let watch = Watch::begin()?;
    let mechanisms = request.order.of::<Pin>().into_iter();
    let loops: Vec<_> = mechanisms
        .filter_map(|mechanism| Some((mechanism, loop_of(mechanism)?)))
        .collect();
    let steps = loops.len() * request.sizes.len();
    let mut phase = context.progress.begin_timed(PHASE, steps as u64);
    let mut rows = Vec::new();
    for size in &request.sizes {
        // Whole folios only, at least one.
        let pages = request.order.pages.get().div_ceil(size.pages) * size.pages;
        let mut memory = Memory::new(pages, size.pages);
        for &(mechanism, pin) in &loops {
            let key = key(mechanism, *size);
            phase.step(&key.to_string());
            let measurement = Measurement {
                pin,
                runs: request.order.runs,
                stop: context.stop,
            };
            rows.push(measurement.row(key, &mut memory)?);
        }
    }
    Ok(Billed {
        draft: draft(request, rows, watch.end()?),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

fn draft(request: &Request, rows: Vec<Row>, load: HostLoad) -> Draft {
    let notes = [
        "the loops alone, over descriptors of 64 bytes: no page-table walk, no IOMMU, no system call",
        "CPU time of the thread; published for batched accounting (vfio, May 2025): 33,814 us and 15,635 us for 8 GiB of 2 MiB pages, 2.16x, of all of vfio_pin_map_dma",
    ];
    let notes = notes.map(str::to_owned).into_iter();
    Draft {
        backend: Backend::Live,
        route: Route::Pin,
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack: host::stack(),
        order: request.order.clone(),
        rows,
        notes: notes.chain(host::busy_note(load)).collect(),
        inputs: Inputs {
            host_load: Some(load),
            ..Inputs::default()
        },
    }
}

fn key(mechanism: Pin, size: FolioSize) -> RowKey {
    RowKey {
        folio: Some(size.folio),
        ..RowKey::new(Operation::Map, mechanism, System::Native)
    }
}

/// A loop, and how often it is run.
struct Measurement<'a> {
    pin: Loop,
    runs: u32,
    stop: &'a Stop,
}

impl Measurement<'_> {
    fn row(&self, key: RowKey, memory: &mut Memory) -> Result<Row, LiveError> {
        let pages = memory.pages();
        let mut costs = Vec::new();
        let (mut wrong, mut last) = (0, Pinned::default());
        for run in 0..WARM_UP + self.runs {
            self.stop.check()?;
            let began = thread_time();
            last = (self.pin)(memory);
            let taken = thread_time().saturating_sub(began);
            wrong += memory.wrong_after(last);
            memory.release();
            if run >= WARM_UP {
                costs.push(taken.as_secs_f64() * 1e9 / pages as f64);
            }
        }
        let figures = Figures::of_runs(costs).map(|figures| Figures {
            tolls: vec![turns(figures.cost_per_page, last, pages)],
            ..figures
        });
        let tried = pages * u64::from(WARM_UP + self.runs);
        let check = Check::against_known("pin-counts", tried, wrong);
        Ok(Row::new(key, Pages(pages), figures).with_checks(vec![check]))
    }
}

/// The only toll: the turns of the loop.
fn turns(cost: f64, pinned: Pinned, pages: u64) -> Toll {
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
            for (mechanism, pin) in loops() {
                let measurement = Measurement {
                    pin,
                    runs: 2,
                    stop: &Stop::new(),
                };
                let row = measurement.row(key(mechanism, *size), &mut memory).unwrap();
                assert_eq!(row.checks[0].failed, 0, "{}", row.key);
                assert_eq!(row.figures().unwrap().runs.len(), 2);
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
