//! The model as a backend: memory of each shape is mapped and unmapped on it, and a host table prices what was done.
//!
//! Nothing is computed from the order: counts are those of the model's own loops ([`Tolls`]).

use std::collections::BTreeMap;

use pagetoll_bill::host::{CostKey, Host, HostError, Prices};
use pagetoll_bill::{
    Backend, Bill, Check, Evidence, Layout, Limits, Order, Provenance, Role, Route, Row, Schema,
    System, Toll,
};
use pagetoll_units::Pages;

use super::{Argument, Container, Folio, Leaf, Mapping, Mechanism, PAGE, Tolls, Unmapping};
use crate::billing::{BillingError, Samples};

/// What the model can take: 64 GiB. It has no noise to be averaged out, so one run.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 24),
    batch: 1,
    runs: 1,
};

/// A shape of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name, the lab's where it means the same.
    pub name: &'static str,
    /// Pages of a folio.
    folio: u64,
    /// Pages of an entry of the process's page tables.
    entry: u64,
    /// Folios that are contiguous, before the next lie elsewhere.
    run: u64,
    /// Pages at the beginning that are not mapped, and pages of each call; 0: all in one.
    skip: u64,
    window: u64,
    /// A container takes 65,535 mappings, so that not all that is ordered is mapped one by one.
    most: u64,
}

const fn shape(name: &'static str, folio: u64) -> Shape {
    Shape {
        name,
        folio,
        entry: folio,
        run: u64::MAX,
        skip: 0,
        window: 0,
        most: u64::MAX,
    }
}

/// The shapes. Memory is taken to be as contiguous as that of a guest that has just booted, except where neighbours are
/// apart on purpose.
pub const FOLIOS: [Shape; 7] = [
    shape("4K", 1),
    shape("THP", 512),
    shape("2M", 512),
    shape("1G", 1 << 18),
    Shape {
        run: 1,
        skip: 256,
        window: 512,
        most: 8192,
        ..shape("2M-halves", 512)
    },
    Shape {
        entry: 1,
        ..shape("2M-entries", 512)
    },
    Shape {
        window: 1,
        most: 512,
        ..shape("2M-single", 512)
    },
];

/// What is to be billed, and by which prices.
#[derive(Clone, Debug)]
pub struct Request {
    /// Pages and mechanisms.
    pub order: Order,
    /// Names of the shapes, of [`FOLIOS`].
    pub folios: Vec<String>,
    /// What things cost.
    pub host: Host,
    /// How often the table is sampled.
    pub samples: Samples,
    /// The command line, for the bill's provenance.
    pub command: String,
}

const VADDR: u64 = 1 << 40;
const IOVA: u64 = 1 << 36;
/// Everything but QEMU's VT-d's upper end and the interrupt window lies far from what is mapped here.
const IOVA_RANGES: [(u64, u64); 1] = [(1 << 32, (1 << 39) - 1)];

/// Bills the route.
///
/// # Errors
/// [`BillingError::Host`] when the table lacks a figure.
pub fn bill(request: &Request) -> Result<Bill, BillingError> {
    let mechanisms: Vec<_> = Mechanism::ALL
        .into_iter()
        .filter(|m| request.order.mechanisms.iter().any(|n| n == m.name()))
        .collect();
    let shapes: Vec<_> = FOLIOS
        .into_iter()
        .filter(|shape| request.folios.iter().any(|name| name == shape.name))
        .collect();
    let control = contiguity(Mechanism::PerBatch);
    let mut rows = Vec::new();
    for mechanism in mechanisms {
        let check = contiguity_check(mechanism, control);
        for shape in &shapes {
            let travelled = travel(mechanism, *shape, request.order.pages);
            for operation in OPERATIONS {
                let mut row = row(request, (mechanism, *shape), operation, &travelled)?;
                row.checks.push(check.clone());
                rows.push(row);
            }
        }
    }
    Ok(Bill {
        schema: Schema::V1,
        route: Route::Pin,
        backend: Backend::Sim,
        backend_reason: String::new(),
        unit: request.host.unit,
        evidence: Evidence::Modelled,
        stack: BTreeMap::from([("host".to_owned(), request.host.name.clone())]),
        rows,
        order: request.order.clone(),
        notes: vec![
            "contiguity: half of a 2 MiB page and half of the next, which lies elsewhere; per-batch takes them for one"
                .to_owned(),
        ],
        provenance: Provenance {
            command: request.command.clone(),
            pagetoll: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        },
    })
}

/// What was done, and what came of it.
struct Travelled {
    map: Tolls,
    unmap: Tolls,
    pages: u64,
    layout: Layout,
    locked: u64,
    left: u64,
    misplaced: u64,
}

#[derive(Clone, Copy)]
struct Operation {
    name: &'static str,
    tolls: fn(&Travelled) -> Tolls,
    tariff: &'static [Item],
}

/// A toll, the figure that it costs each time, and how often it is paid.
type Item = (&'static str, CostKey, fn(&Tolls) -> u64);

const OPERATIONS: [Operation; 2] = [
    Operation {
        name: "map",
        tolls: |travelled| travelled.map,
        tariff: &[
            ("ioctl", CostKey::PIN_IOCTL, |t| t.ioctls),
            ("batch", CostKey::PIN_BATCH, |t| t.batches),
            ("entry", CostKey::PIN_ENTRY, |t| t.entries),
            ("page-pointer", CostKey::PIN_POINTER, |t| t.page_pointers),
            ("page-check", CostKey::PIN_PAGE, |t| t.pages_checked),
            ("folio-check", CostKey::PIN_FOLIO, |t| t.folios_checked),
            ("run", CostKey::PIN_RUN, |t| t.runs),
        ],
    },
    Operation {
        name: "unmap",
        tolls: |travelled| travelled.unmap,
        tariff: &[
            ("ioctl", CostKey::UNPIN_IOCTL, |t| t.ioctls),
            ("translation", CostKey::UNPIN_TRANSLATION, |t| {
                t.translations
            }),
            ("level", CostKey::UNPIN_LEVEL, |t| t.levels),
            ("run", CostKey::UNPIN_RUN, |t| t.runs_unmapped),
            ("page", CostKey::UNPIN_PAGE, |t| t.pages_unpinned),
            ("folio", CostKey::UNPIN_FOLIO, |t| t.folios_unpinned),
        ],
    },
];

fn travel(mechanism: Mechanism, shape: Shape, ordered: Pages) -> Travelled {
    let pages = ordered.get().min(shape.most).div_ceil(shape.folio) * shape.folio;
    let (mut container, runs) = furnished(mechanism, shape, pages + 2 * shape.skip);
    let window = if shape.window == 0 {
        pages
    } else {
        shape.window
    };
    let step = usize::try_from(window).unwrap_or(usize::MAX);
    for at in (0..pages).step_by(step) {
        // The model's memory is whole and nothing limits it: nothing is refused.
        let _mapped = container.map_dma(mapping(shape.skip + at, at, window.min(pages - at)));
    }
    let map = std::mem::take(&mut container.tolls);
    let locked = container.process.locked_vm;
    let misplaced = misplaced(&container, shape.skip, pages);
    for at in (0..pages).step_by(step) {
        let _unmapped = container.unmap_dma(unmapping(at, window.min(pages - at)));
    }
    let folios = (pages + 2 * shape.skip) / shape.folio;
    Travelled {
        map,
        unmap: container.tolls,
        pages,
        layout: Layout {
            runs,
            folios,
            largest_folio: shape.folio,
        },
        locked,
        left: container.process.locked_vm,
        misplaced,
    }
}

/// A container whose process has memory of a shape, and the runs that it lies in.
fn furnished(mechanism: Mechanism, shape: Shape, pages: u64) -> (Container, u64) {
    let mut container = Container::new(mechanism, IOVA_RANGES.to_vec());
    let (mut pfn, mut runs) = (1 << 18, 1);
    for (index, page) in (0..pages)
        .step_by(usize::try_from(shape.folio).unwrap_or(1))
        .enumerate()
    {
        if index > 0 && u64::try_from(index).unwrap_or(0) % shape.run == 0 {
            pfn += shape.folio;
            runs += 1;
        }
        container.frames.add(Folio {
            head: pfn,
            pages: shape.folio,
        });
        for inside in (0..shape.folio).step_by(usize::try_from(shape.entry).unwrap_or(1)) {
            let leaf = Leaf {
                pfn: pfn + inside,
                pages: shape.entry,
                writable: true,
                pfnmap: false,
            };
            container.process.map(VADDR + (page + inside) * PAGE, leaf);
        }
        pfn += shape.folio;
    }
    (container, runs)
}

fn mapping(from: u64, to: u64, pages: u64) -> Mapping {
    Mapping {
        argument: Argument {
            argsz: 32,
            flags: 3,
        },
        vaddr: VADDR + from * PAGE,
        iova: IOVA + to * PAGE,
        size: pages * PAGE,
    }
}

fn unmapping(at: u64, pages: u64) -> Unmapping {
    Unmapping {
        argument: Argument {
            argsz: 24,
            flags: 0,
        },
        iova: IOVA + at * PAGE,
        size: pages * PAGE,
    }
}

fn misplaced(container: &Container, skip: u64, pages: u64) -> u64 {
    let wrong = |page: &u64| {
        container.domain.iova_to_pfn(IOVA + page * PAGE)
            != container.process.pfn(VADDR + (skip + page) * PAGE)
    };
    u64::try_from((0..pages).filter(wrong).count()).unwrap_or(u64::MAX)
}

/// Pages of the failing case: a call of 512, in the middle of two folios.
const TRIED: u64 = 512;

/// How many of them the device finds elsewhere.
fn contiguity(mechanism: Mechanism) -> u64 {
    let halves = FOLIOS.into_iter().find(|shape| shape.name == "2M-halves");
    halves.map_or(0, |shape| travel(mechanism, shape, Pages(TRIED)).misplaced)
}

fn contiguity_check(mechanism: Mechanism, control: u64) -> Check {
    let failed = contiguity(mechanism);
    match mechanism {
        Mechanism::PerBatch => Check::of_control(Check::CONTIGUITY, TRIED, failed),
        _ => Check::against_control(Check::CONTIGUITY, TRIED, failed, control),
    }
}

fn row(
    request: &Request,
    (mechanism, shape): (Mechanism, Shape),
    operation: Operation,
    travelled: &Travelled,
) -> Result<Row, BillingError> {
    let role = Route::Pin
        .mechanism(mechanism.name())
        .map_or(Role::Alternative, |known| known.role);
    let pages = Pages(travelled.pages);
    let mut row = Row::new(operation.name, mechanism.name(), role, pages);
    row.system = System::Native;
    row.folio = Some(shape.name.to_owned());
    row.layout = Some(travelled.layout);
    row.smp_safe = None;
    let machines = request.samples.machines(&request.host);
    let priced = machines.map(|prices| tolls(operation, travelled, &prices));
    row.set_samples(priced.collect::<Result<_, _>>()?);
    // What per-batch does wrong stands in the check that it is the control of.
    if mechanism != Mechanism::PerBatch {
        row.checks = vec![
            Check::against_known(
                "locked",
                pages.get(),
                pages.get().abs_diff(travelled.locked),
            ),
            Check::against_known("unlocked", pages.get(), travelled.left),
            Check::against_known("device-reads", pages.get(), travelled.misplaced),
        ];
    }
    Ok(row)
}

/// Tolls that did not occur are left out, and need no figure.
#[allow(clippy::cast_precision_loss)]
fn tolls(
    operation: Operation,
    travelled: &Travelled,
    prices: &Prices<'_>,
) -> Result<Vec<Toll>, HostError> {
    let counted = (operation.tolls)(travelled);
    let occurred = operation
        .tariff
        .iter()
        .map(|(name, key, count)| (*name, *key, count(&counted)))
        .filter(|(_, _, count)| *count > 0);
    occurred
        .map(|(name, key, count)| {
            Ok(Toll {
                name: name.to_owned(),
                count_per_page: count as f64 / travelled.pages as f64,
                cost_each: prices.of(key)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../../hosts/lab-vfio-6.18.toml");

    fn request(mechanisms: &[Mechanism]) -> Request {
        Request {
            order: Order {
                pages: Pages(2048),
                batches: vec![1],
                mechanisms: mechanisms.iter().map(|m| m.name().to_owned()).collect(),
                runs: 1,
            },
            folios: FOLIOS.iter().map(|shape| shape.name.to_owned()).collect(),
            host: Host::parse("lab-vfio-6.18", TABLE).unwrap(),
            samples: Samples { count: 20, seed: 1 },
            command: String::new(),
        }
    }

    #[test]
    fn every_check_passes_but_that_of_the_mechanism_which_is_wrong() {
        use pagetoll_bill::Verdict;
        let bill = bill(&request(&Mechanism::ALL)).unwrap();
        assert_eq!(bill.checks_with(Verdict::Fail).count(), 0);
        assert_eq!(bill.checks_with(Verdict::Inconclusive).count(), 0);
        for row in &bill.rows {
            let check = row.checks.last().unwrap();
            let expected = if row.mechanism == "per-batch" {
                Verdict::Fail
            } else {
                Verdict::Pass
            };
            assert_eq!(
                (check.name.as_str(), check.verdict),
                (Check::CONTIGUITY, expected)
            );
        }
    }

    #[test]
    fn tolls_sum_to_the_cost_and_the_same_order_gives_the_same_bill() {
        let request = request(&[Mechanism::PerFolio]);
        let first = bill(&request).unwrap();
        for row in &first.rows {
            let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
            assert!((sum - row.cost_per_page.unwrap()).abs() < 1e-9);
        }
        assert_eq!(bill(&request).unwrap(), first);
    }
}
