//! The routes that are counted and priced: what a Xen PV guest does with page tables, descriptors and events.

pub(crate) mod cell;

use std::collections::BTreeMap;

use pagetoll_backend::Stop;
use pagetoll_bill::{
    Backend, Crossings, Limits, Mechanism, Order, RouteMechanism, Row, Spec, System, crossing,
};
use pagetoll_models::linux::RouteRun;
use rayon::prelude::*;

use self::cell::{Cell, Step};
use super::{DEFAULT_SAMPLES, Modelled, Ordered, Sampled, price, versions};
use crate::error::{BillingError, RequestError};

/// At most 1 TiB of pages. A model has no noise to be averaged out, so one run.
pub(crate) const ONE_BY_ONE: Limits = Limits::pages(16_384, 1 << 28).batches(&[1], 512);

/// Batches that show per-call and per-entry costs apart, in pages; at most the entries of one page table.
const BATCHED: Limits = ONE_BY_ONE.batches(&[1, 8, 32, 128, 512], 512);

/// Cells that are run on new machines, and the prices.
#[derive(Debug)]
pub(crate) struct Request {
    ordered: Ordered,
    cells: Vec<Cell>,
}

impl Request {
    fn new<M: RouteMechanism>(spec: &Spec, steps: &[Step<M>]) -> Result<Self, RequestError> {
        let mut mechanisms = spec.route.mechanisms_on(Backend::Sim);
        let limits = if mechanisms.any(Mechanism::is_batched) {
            BATCHED
        } else {
            ONE_BY_ONE
        };
        let ordered = Ordered::new(spec, &limits, DEFAULT_SAMPLES)?;
        let cells = SYSTEMS.map(|system| cell::cells(steps, &ordered.order, system));
        Ok(Self {
            cells: cells.into_iter().flatten().collect(),
            ordered,
        })
    }
}

/// The request that an order of a route of these operations makes.
pub(crate) fn request<M: RouteMechanism>(
    spec: &Spec,
    steps: &[Step<M>],
) -> Result<Box<dyn super::Request>, RequestError> {
    Ok(Box::new(Request::new(spec, steps)?))
}

/// The guests of the simulated Xen.
const SYSTEMS: [System; 2] = [System::XenPvDom0, System::XenPv32Dom0];

impl super::Request for Request {
    fn ordered(&mut self) -> &mut Ordered {
        &mut self.ordered
    }

    /// A table that lacks a figure is refused before anything is simulated.
    fn run(&self, stop: &Stop) -> Result<Modelled, BillingError> {
        let cells = self.cells.par_iter();
        let rows = cells.map(|cell| {
            stop.check()?;
            row(&self.ordered, cell)
        });
        Ok(Modelled {
            rows: rows.collect::<Result<_, _>>()?,
            notes: notes(&self.ordered),
        })
    }
}

fn row(ordered: &Ordered, cell: &Cell) -> Result<Sampled, BillingError> {
    let Ordered { order, costs, .. } = ordered;
    let tariff = cell.tariff();
    // Checked before a terabyte is walked.
    if let Err(lacking) = price::check(&tariff, costs) {
        if cell.key.system == System::XenPv32Dom0 && has_64_bit_only(order) {
            let reason = lacking.to_string();
            return Ok(Sampled {
                row: Row::unavailable(cell.key.clone(), order.pages, reason),
                samples: Vec::new(),
            });
        }
        return Err(lacking.into());
    }
    let walked = cell.run(order.pages)?;
    let samples = price::samples(&tariff, &walked.into(), ordered)?;
    let mut sampled = Sampled::new(cell.key.clone(), order.pages, samples);
    if let Some(figures) = sampled.row.figures_mut() {
        figures.crossings = Some(crossings(&walked));
    }
    sampled.row.checks = cell.work.checks(&walked.checked);
    Ok(sampled)
}

/// Crossings of an item by kind, under the names that the lab's traces have.
fn crossings(walked: &RouteRun) -> Crossings {
    let tolls = &walked.tolls;
    let kinds = [
        (crossing::PTWR, tolls.emulations),
        (crossing::PAGE_FAULT, tolls.page_faults - tolls.emulations),
        (crossing::OTHER_TRAP, tolls.privileged),
        ("mmu_update", tolls.mmu_update),
        ("update_va_mapping", tolls.update_va_mapping),
        ("mmuext_op", tolls.mmuext_op),
        ("multicall", tolls.multicall),
        ("update_descriptor", tolls.update_descriptor),
        ("set_gdt", tolls.set_gdt),
        ("xen_version", tolls.xen_version),
        ("iret", tolls.iret),
        ("pte_xchg", tolls.pte_xchg),
    ];
    let counted = kinds.into_iter().filter(|(_, count)| *count > 0);
    let each = |(kind, count): (&str, u64)| (kind.to_owned(), price::per_item(count, walked.items));
    let by_kind: BTreeMap<_, _> = counted.map(each).collect();
    Crossings {
        per_page: by_kind.values().fold(0.0, |sum, count| sum + count),
        by_kind,
    }
}

/// Returns whether the order has mechanisms that only a 64-bit dom0 has: a table of such a dom0 prices those, and rows
/// of a 32-bit guest are unavailable. An order of nothing but 32-bit mechanisms needs their figures.
fn has_64_bit_only(order: &Order) -> bool {
    let mut all = order.mechanisms.iter();
    all.any(|mechanism| {
        mechanism.exists_on(System::XenPvDom0) && !mechanism.exists_on(System::XenPv32Dom0)
    })
}

fn notes(ordered: &Ordered) -> Vec<String> {
    let mut notes = vec![ordered.spread(), COUNTED.to_owned()];
    notes.extend(versions::warnings(&ordered.costs));
    notes
}

/// The origin of crossings and checks.
const COUNTED: &str = "crossings and checks: counted on the simulated system, which answers every conformance case as Xen 4.17 does";
