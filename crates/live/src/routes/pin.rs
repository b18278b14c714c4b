//! The pin route on this CPU: the loops that pin and account pages, over descriptors of their real size.
//!
//! 64 bytes describe a page (`sizeof(struct page)` on x86-64), 8 GiB are 2 Mi descriptors, 128 MiB of them: more than any
//! cache. Each mechanism does what its loop in `systems/vfio` does: finds the pages of an entry, adds to the folio's pin
//! count, writes page pointers into a batch, checks that they go on where the run ends, and accounts them. What the loops
//! leave behind is compared with what it must be.
//!
//! Not here: page-table walks, locks, the IOMMU, system calls. So a ratio between mechanisms is one between loops, and
//! larger than that of the whole `MAP_DMA`, of which the loops are a part.

mod descriptor;
mod loops;

use std::collections::BTreeMap;

use pagetoll_bill::{
    Backend, Bill, Check, Evidence, Limits, Order, Provenance, Role, Route, Row, Schema, System,
    Toll, Unit,
};
use pagetoll_units::Pages;

use self::descriptor::Memory;
use self::loops::{Mechanism, Pinned};
use crate::thread_time::thread_time;

/// What this host can take: 64 GiB of pages, a gigabyte of descriptors.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 24),
    batch: 1,
    runs: 1000,
};

/// Pages of an order that does not say: 8 GiB, as the first posting of batched pinning (vfio, May 2025) measured them.
pub const DEFAULT_PAGES: Pages = Pages(1 << 21);

/// A measurement has at least so many runs: with fewer, two bills cannot be told apart.
pub const LEAST_RUNS: u32 = 10;

/// Runs before those that count: the first one faults the descriptors in.
const WARM_UP: u32 = 1;

/// A size of folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Its name.
    pub name: &'static str,
    /// Pages of 4 KiB.
    pub pages: u64,
}

/// The sizes of folio.
pub const FOLIOS: [Folio; 4] = [
    Folio {
        name: "4K",
        pages: 1,
    },
    Folio {
        name: "64K",
        pages: 16,
    },
    Folio {
        name: "2M",
        pages: 512,
    },
    Folio {
        name: "1G",
        pages: 1 << 18,
    },
];

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// Pages, mechanisms, runs.
    pub order: Order,
    /// Names of the folios, of [`FOLIOS`].
    pub folios: Vec<String>,
    /// The command line, for the bill's provenance.
    pub command: String,
}

/// Measures.
#[must_use]
pub fn bill(request: &Request) -> Bill {
    let mut rows = Vec::new();
    for folio in FOLIOS {
        if !request.folios.iter().any(|name| name == folio.name) {
            continue;
        }
        // Whole folios only, at least one.
        let pages = request.order.pages.get().div_ceil(folio.pages) * folio.pages;
        let mut memory = Memory::new(pages, folio.pages);
        for mechanism in Mechanism::ALL {
            let name = mechanism.name();
            if request.order.mechanisms.iter().any(|other| other == name) {
                let order = (mechanism, folio, request.order.runs);
                rows.push(row(order, &mut memory));
            }
        }
    }
    Bill {
        schema: Schema::V1,
        route: Route::Pin,
        backend: Backend::Live,
        backend_reason: String::new(),
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack: BTreeMap::from([("cpu".to_owned(), cpu())]),
        rows,
        order: request.order.clone(),
        notes: vec![
            "the loops alone, over descriptors of 64 bytes: no page-table walk, no IOMMU, no system call".to_owned(),
            "CPU time of the thread; published for batched accounting (vfio, May 2025): 33,814 us and 15,635 us for 8 GiB of 2 MiB pages, 2.16x, of all of vfio_pin_map_dma".to_owned(),
        ],
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    }
}

fn row((mechanism, folio, runs): (Mechanism, Folio, u32), memory: &mut Memory) -> Row {
    let pages = memory.pages();
    let role = Route::Pin
        .mechanism(mechanism.name())
        .map_or(Role::Alternative, |known| known.role);
    let mut row = Row::new("map", mechanism.name(), role, Pages(pages));
    row.system = System::Native;
    row.folio = Some(folio.name.to_owned());
    let mut costs = Vec::new();
    let (mut wrong, mut last) = (0, Pinned::default());
    for run in 0..WARM_UP + runs {
        let began = thread_time();
        last = mechanism.pin(memory);
        let taken = thread_time().saturating_sub(began);
        wrong += memory.wrong_after(mechanism, last);
        memory.release();
        if run >= WARM_UP {
            costs.push(per_page(taken.as_secs_f64() * 1e9, pages));
        }
    }
    row.set_runs(costs);
    let tried = pages * u64::from(WARM_UP + runs);
    row.checks = vec![Check::against_known("pin-counts", tried, wrong)];
    row.tolls = tolls(row.cost_per_page.unwrap_or_default(), last, pages);
    row
}

/// One toll: the turns of the loop.
fn tolls(cost: f64, pinned: Pinned, pages: u64) -> Vec<Toll> {
    let count_per_page = per_page_count(pinned.turns, pages);
    vec![Toll {
        name: "turn".to_owned(),
        count_per_page,
        cost_each: cost / count_per_page,
    }]
}

#[allow(clippy::cast_precision_loss)]
fn per_page(nanos: f64, pages: u64) -> f64 {
    nanos / pages as f64
}

#[allow(clippy::cast_precision_loss)]
fn per_page_count(count: u64, pages: u64) -> f64 {
    count as f64 / pages as f64
}

/// The processor's name, where the kernel tells: proc(5).
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_leaves_the_counts_that_it_must() {
        for folio in FOLIOS.iter().filter(|folio| folio.pages <= 512) {
            let mut memory = Memory::new(4096, folio.pages);
            for mechanism in Mechanism::ALL {
                let row = row((mechanism, *folio, 2), &mut memory);
                assert_eq!(
                    row.checks[0].failed,
                    0,
                    "{} {}",
                    mechanism.name(),
                    folio.name
                );
                assert_eq!(row.runs.len(), 2);
            }
        }
    }

    #[test]
    fn a_count_that_is_missing_is_found() {
        let mut memory = Memory::new(1024, 512);
        let pinned = Mechanism::PerPage.pin(&mut memory);
        assert_eq!(memory.wrong_after(Mechanism::PerPage, pinned), 0);
        memory.release();
        assert!(memory.wrong_after(Mechanism::PerPage, pinned) > 0);
    }

    #[test]
    fn turns_are_fewer_the_more_a_turn_takes() {
        let turns = |mechanism: Mechanism| {
            let mut memory = Memory::new(1 << 18, 1 << 18);
            mechanism.pin(&mut memory).turns
        };
        assert_eq!(turns(Mechanism::PerPage), 1 << 18);
        assert_eq!(turns(Mechanism::PerFolio), 512);
        assert_eq!(turns(Mechanism::Range), 1);
    }
}
