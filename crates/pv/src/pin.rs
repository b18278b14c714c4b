//! The pin route by `guests/pin-probe`: what it is ordered to do, and rows from what it reports.

use pagetoll_bill::route::Pin as Mechanism;
use pagetoll_bill::row::{Folio, Layout};
use pagetoll_bill::{Check, Figures, Operation, Row, RowKey, Toll, Unavailable};
use pagetoll_protocol::report::{Pin, PinUnavailable};
use pagetoll_protocol::step::{Interface, PinStep};
use pagetoll_units::Pages;

use crate::rows::per;

/// Operations on the memory; the first mapping pays once for the IOMMU's page tables, the first unmapping for marking the pages
/// dirty.
pub const OPERATIONS: [Operation; 4] = [
    Operation::Map,
    Operation::Unmap,
    Operation::FirstMap,
    Operation::FirstUnmap,
];

/// Notes of every bill by this probe.
pub const NOTES: [&str; 2] = [
    "memory is there and written before it is mapped: neither page faults nor zeroing are in the figures",
    "map and unmap: the median of three, after two to warm up; first-map and first-unmap: the first",
];

/// Repetitions of mapping and unmapping each shape, after two to warm up. The median is billed: a timer interrupt more or
/// less is all that differs.
const REPEATS: u32 = 3;
/// Pages of 1 GiB of the shape that has them.
const GIGABYTE: u64 = 1 << 18;
/// The awkward shapes do not need many pages.
const AWKWARD_PAGES: u64 = 8192;
/// One ioctl for each page takes long.
const SINGLE_PAGES: u64 = 512;
/// Pages of which one is mapped of each large page, and pages of which two are: 32 large pages at most.
const FIRST_PAGES: u64 = 32;
const PAIRED_PAGES: u64 = 2 * FIRST_PAGES;

/// The interface by which the probe maps for a mechanism. The others are loops and models, not kernels.
#[must_use]
pub const fn interface(mechanism: Mechanism) -> Option<Interface> {
    match mechanism {
        Mechanism::Kernel => Some(Interface::Type1),
        Mechanism::Iommufd => Some(Interface::Iommufd),
        Mechanism::PerPage | Mechanism::PerBatch | Mechanism::PerFolio | Mechanism::Range => None,
    }
}

/// The shapes that were ordered, in the order in which they are listed; of none, all that are not for calibration.
#[must_use]
pub fn shapes(ordered: &[Folio]) -> Vec<Folio> {
    let wanted = |shape: &Folio| match ordered {
        [] => !is_for_calibration(*shape),
        ordered => ordered.contains(shape),
    };
    Folio::ALL.iter().copied().filter(wanted).collect()
}

/// Returns whether a shape is billed only on request: `pagetoll calibrate` needs it to separate the costs of steps.
const fn is_for_calibration(shape: Folio) -> bool {
    matches!(
        shape,
        Folio::Shifted2m
            | Folio::First2m
            | Folio::Pairs2m
            | Folio::Straddle2m
            | Folio::Apart2m
            | Folio::Each2m
    )
}

/// Pages of a shape that are billed when so many are ordered: `guests/pin-probe/bill.c`.
#[must_use]
pub fn pages(shape: Folio, ordered: Pages) -> Pages {
    let ordered = ordered.get();
    Pages(match shape {
        Folio::Pages4k | Folio::Thp | Folio::Pages2m => ordered,
        Folio::Pages1g => GIGABYTE,
        // Of each large page of the order.
        Folio::First2m => ordered.div_ceil(512).min(FIRST_PAGES),
        Folio::Pairs2m | Folio::Straddle2m => (ordered.div_ceil(512) * 2).min(PAIRED_PAGES),
        Folio::Single2m => ordered.min(SINGLE_PAGES),
        Folio::Shifted2m
        | Folio::Pages64k
        | Folio::Halves2m
        | Folio::Again2m
        | Folio::Entries2m
        | Folio::File
        | Folio::Apart2m
        | Folio::Each2m => ordered.min(AWKWARD_PAGES),
    })
}

/// Every shape, by every interface.
#[must_use]
pub fn steps(shapes: &[Folio], ordered: Pages, interfaces: &[Interface]) -> Vec<PinStep> {
    let of = |&interface| {
        shapes.iter().map(move |&shape| PinStep::Bill {
            interface,
            shape,
            pages: pages(shape, ordered),
            repeats: REPEATS,
        })
    };
    interfaces.iter().flat_map(of).collect()
}

/// Times that the probe maps and unmaps before it repeats that: `guests/pin-probe/bill.c`.
const WARM_UPS: usize = 2;

/// Reports of one run of the probe.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// Memory that was mapped.
    pub pins: Vec<Pin>,
    /// Memory that could not be mapped.
    pub unavailable: Vec<PinUnavailable>,
}

/// Through which interface, and memory of which shape.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The interface.
    pub interface: Interface,
    /// The shape.
    pub shape: Folio,
}

impl Reports {
    /// The number of the step whose count is the cost of a row, as the probe numbers what it maps and unmaps, from 0 on.
    #[must_use]
    pub fn step_of(&self, cell: Cell, operation: Operation) -> Option<usize> {
        let pin = cell.pin(self)?;
        let before = self.pins.iter().take_while(|other| *other != pin);
        let steps = |pin: &Pin| 2 * (WARM_UPS + pin.map.len());
        let unmaps = [Operation::Unmap, Operation::FirstUnmap].contains(&operation);
        let steps_before: usize = before.map(steps).sum();
        Some(steps_before + 2 * median(pin, operation).index + usize::from(unmaps))
    }
}

impl Cell {
    fn pin(self, found: &Reports) -> Option<&Pin> {
        let mut pins = found.pins.iter();
        pins.find(|pin| pin.shape == self.shape && pin.interface == self.interface)
    }

    fn why_not(self, runs: &[&Reports]) -> String {
        let mut reports = runs.iter().flat_map(|run| &run.unavailable);
        let report = reports.find(|one| one.shape == self.shape && one.interface == self.interface);
        report.map_or_else(
            || "the kernel was built without iommufd".to_owned(),
            |report| report.reason.clone(),
        )
    }
}

/// The row of a cell, from all runs, when so many pages were ordered. `tolls` itemises a cost; the calls do where it does
/// not.
#[must_use]
pub fn row(
    key: RowKey,
    cell: Cell,
    ordered: Pages,
    runs: &[&Reports],
    tolls: impl FnOnce(f64) -> Option<Vec<Toll>>,
) -> Row {
    let pages = pages(cell.shape, ordered);
    let pins: Vec<_> = runs.iter().filter_map(|found| cell.pin(found)).collect();
    match pins.first() {
        Some(first) => mapped(key, pages, &pins, first, tolls),
        None => Row::unavailable(key, pages, cell.why_not(runs)),
    }
}

fn mapped(
    key: RowKey,
    pages: Pages,
    pins: &[&Pin],
    first: &Pin,
    tolls: impl FnOnce(f64) -> Option<Vec<Toll>>,
) -> Row {
    let layout = Layout {
        runs: first.runs,
        folios: first.folios,
        largest_folio: first.largest,
    };
    let figures = figures(pins, first, key.operation, tolls);
    Row {
        layout: Some(layout),
        checks: checks(pins),
        ..Row::new(key, pages, figures)
    }
}

fn figures(
    pins: &[&Pin],
    first: &Pin,
    operation: Operation,
    tolls: impl FnOnce(f64) -> Option<Vec<Toll>>,
) -> Result<Figures, Unavailable> {
    let costs = pins.iter().map(|pin| cost(pin, operation));
    let figures = Figures::of_runs(costs.collect())?;
    let total = figures.cost_per_page;
    let ioctls = per(first.ioctls, first.pages);
    let tolls = tolls(total).unwrap_or_else(|| vec![Toll::new("ioctl", ioctls, total / ioctls)]);
    Ok(Figures { tolls, ..figures })
}

/// For each page; the median of the repeats.
fn cost(pin: &Pin, operation: Operation) -> f64 {
    per(median(pin, operation).cost, pin.pages)
}

/// One of the times that something was repeated.
#[derive(Clone, Copy, Default)]
struct Repeat {
    /// Its number by the probe, from 0 on.
    index: usize,
    cost: u64,
}

fn median(pin: &Pin, operation: Operation) -> Repeat {
    let (skipped, costs) = if operation == Operation::Map {
        (WARM_UPS, pin.map.clone())
    } else if operation == Operation::Unmap {
        (WARM_UPS, pin.unmap.clone())
    } else if operation == Operation::FirstUnmap {
        (0, vec![pin.first_unmap])
    } else {
        (0, vec![pin.first_map])
    };
    let repeats = costs.into_iter().enumerate();
    let mut repeats: Vec<_> = repeats
        .map(|(index, cost)| Repeat {
            index: index + skipped,
            cost,
        })
        .collect();
    repeats.sort_by_key(|repeat| repeat.cost);
    repeats.get(repeats.len() / 2).copied().unwrap_or_default()
}

/// Every run's: pages locked while mapped and none after, and what the device finds, where it can be asked.
fn checks(pins: &[&Pin]) -> Vec<Check> {
    let sum = |of: fn(&Pin) -> u64| pins.iter().map(|pin| of(pin)).sum();
    let (pages, tried) = (sum(|pin| pin.pages), sum(|pin| pin.tried));
    let reads = Check::against_known("device-reads", tried, sum(|pin| pin.misplaced));
    let accounted = [
        Check::against_known("locked", pages, sum(|pin| pin.pages.abs_diff(pin.locked))),
        Check::against_known("unlocked", pages, sum(|pin| pin.left)),
    ];
    let reads = (tried > 0).then_some(reads);
    accounted.into_iter().chain(reads).collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::System;

    use super::*;

    fn pin() -> Pin {
        Pin {
            interface: Interface::Type1,
            shape: Folio::Pages2m,
            pages: 512,
            ioctls: 1,
            first_map: 51_200,
            first_unmap: 25_600,
            map: vec![10_240, 10_241, 99_999],
            unmap: vec![5120, 5120, 5120],
            runs: 1,
            folios: 1,
            largest: 512,
            locked: 512,
            left: 0,
            tried: 4,
            misplaced: 0,
        }
    }

    fn row_of(operation: Operation, pin: &Pin) -> Row {
        let key = RowKey::new(operation, Mechanism::Kernel, System::Native);
        row_of_found(
            key,
            pin.shape,
            &Reports {
                pins: vec![pin.clone()],
                ..Reports::default()
            },
        )
    }

    fn row_of_found(key: RowKey, shape: Folio, found: &Reports) -> Row {
        let interface = Interface::Type1;
        row(key, Cell { interface, shape }, Pages(512), &[found], |_| {
            None
        })
    }

    #[test]
    fn what_the_guest_had_no_pages_for_says_why_and_has_no_figure() {
        let why = "too few free hugepages of 1 GiB";
        let found = Reports {
            pins: vec![pin()],
            unavailable: vec![PinUnavailable {
                interface: Interface::Type1,
                shape: Folio::Pages1g,
                reason: why.to_owned(),
            }],
        };
        for operation in OPERATIONS {
            let key = || RowKey::new(operation, Mechanism::Kernel, System::Native);
            let row = row_of_found(key(), Folio::Pages1g, &found);
            assert_eq!(row.why_unavailable(), Some(why));
            assert_eq!((row.cost(), row.checks.len()), (None, 0));
            let row = row_of_found(key(), Folio::Pages2m, &found);
            assert_eq!(row.why_unavailable(), None);
        }
    }

    #[test]
    fn the_median_of_the_repeats_is_billed() {
        let cost = |operation| row_of(operation, &pin()).cost();
        assert_eq!(cost(Operation::Map), Some(10_241.0 / 512.0));
        assert_eq!(cost(Operation::Unmap), Some(10.0));
        assert_eq!(cost(Operation::FirstMap), Some(100.0));
        assert_eq!(cost(Operation::FirstUnmap), Some(50.0));
    }

    #[test]
    fn a_device_that_cannot_be_asked_checks_nothing() {
        let silent = Pin { tried: 0, ..pin() };
        let names = |pin: Pin| {
            let row = row_of(Operation::Map, &pin);
            let names = row.checks.iter().map(|check| check.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(pin()), ["locked", "unlocked", "device-reads"]);
        assert_eq!(names(silent), ["locked", "unlocked"]);
    }

    #[test]
    fn a_gigabyte_is_whole_and_awkward_shapes_are_small() {
        let of = |shape, ordered| pages(shape, Pages(ordered)).get();
        let pages = |shape| of(shape, 65_536);
        let pairs = Folio::Pairs2m;
        assert_eq!((pages(pairs), of(pairs, 2048)), (64, 8));
        let first = Folio::First2m;
        assert_eq!((pages(first), of(first, 2048)), (32, 4));
        assert_eq!(
            (pages(Folio::Pages2m), pages(Folio::Pages1g)),
            (65_536, 262_144)
        );
        assert_eq!(
            (pages(Folio::Halves2m), pages(Folio::Single2m)),
            (8192, 512)
        );
    }

    #[test]
    fn shapes_come_as_listed_and_those_of_calibration_on_request() {
        assert_eq!(
            shapes(&[Folio::Pages4k, Folio::Apart2m]),
            [Folio::Pages4k, Folio::Apart2m]
        );
        assert_eq!(shapes(&[]).len(), 10);
    }
}
