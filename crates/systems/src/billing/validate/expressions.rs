//! How each published figure is computed: from what was counted on the simulated system, and the prices of a table.

use std::num::NonZeroU64;

use pagetoll_bill::host::{CostKey, HostError, Prices};
use pagetoll_units::Pages;

use super::super::BillingError;
use super::super::cells::Operation;
use super::super::price;
use super::super::tariff::{self, Item};
use crate::linux::{self, EnableEvents, GetAndClear, Irq, LoadTls, SetPte, Walked, Zap};

/// The tables that price comparisons.
pub const HOSTS: [&str; 1] = [PV_DOM0];

const PV_DOM0: &str = "xen-pv-dom0";

/// Pages, switches or enables that a comparison travels: enough that no table or batch is cut.
const ITEMS: u64 = 4096;
/// Entries that Linux gathers in lazy MMU mode while it unmaps a page table (mm/memory.c, `zap_pte_range`).
const LAZY_BATCH: u32 = 512;

/// Computes the figure for one set of prices, and a seed for whatever is random in it.
pub(super) type Model = Box<dyn Fn(&Prices<'_>, u64) -> Result<f64, BillingError> + Send + Sync>;

/// How one published figure is computed.
pub(super) struct Expression {
    id: &'static str,
    /// The table that prices it.
    pub(super) host: &'static str,
    /// Travels what is to be priced.
    pub(super) prepare: fn() -> Result<Model, BillingError>,
}

const fn on_pv_dom0(id: &'static str, prepare: fn() -> Result<Model, BillingError>) -> Expression {
    Expression {
        id,
        host: PV_DOM0,
        prepare,
    }
}

const EXPRESSIONS: [Expression; 6] = [
    on_pv_dom0("foreign-map-unmap.ratio", foreign_map_unmap),
    on_pv_dom0("mmapbatch-v2.saved", mmapbatch),
    on_pv_dom0("tls-descriptors.lat_ctx", tls_descriptors),
    on_pv_dom0("tls-descriptors.lat_pipe", tls_descriptors),
    on_pv_dom0("fault-32bit.ratio", fault_32bit),
    on_pv_dom0("xen-version.ratio", xen_version),
];

/// The expression for a published figure.
pub(super) fn named(id: &str) -> Option<&'static Expression> {
    EXPRESSIONS.iter().find(|expression| expression.id == id)
}

/// A mechanism that was travelled, ready to be priced.
struct Priced {
    tariff: Vec<Item>,
    walked: Walked,
}

impl Priced {
    fn new((operation, mechanism): (Operation, &str), walked: Walked) -> Self {
        Self {
            tariff: tariff::of(operation, mechanism),
            walked,
        }
    }

    /// For each item, in the table's unit.
    fn cost(&self, prices: &Prices<'_>) -> Result<f64, HostError> {
        price::cost_of(&self.tariff, &self.walked, prices)
    }
}

fn unmapped(mechanism: GetAndClear, batch: u32) -> Result<Priced, BillingError> {
    let walked = linux::unmap(Pages(ITEMS), Zap { mechanism, batch })?;
    Ok(Priced::new((Operation::Clear, mechanism.name()), walked))
}

/// The program of a domain's memory that is mapped and unmapped: native get-and-clear against `set_pte` in lazy mode,
/// which is what the generic `ptep_get_and_clear` comes to there.
fn foreign_map_unmap() -> Result<Model, BillingError> {
    let before = unmapped(GetAndClear::Emulate, 1)?;
    let after = unmapped(GetAndClear::Lazy, LAZY_BATCH)?;
    Ok(Box::new(move |prices, _| {
        let rest = foreign_map(prices, REMAP_BATCH)? + prices.of(CostKey::MUNMAP_REST)?;
        Ok((rest + before.cost(prices)?) / (rest + after.cost(prices)?))
    }))
}

/// Frames that Linux maps by one `mmu_update` (arch/x86/xen/mmu_pv.c, `REMAP_BATCH_SIZE`).
const REMAP_BATCH: f64 = 16.0;

/// Mapping one frame of another domain.
fn foreign_map(prices: &Prices<'_>, batch: f64) -> Result<f64, HostError> {
    let call = prices.of(CostKey::HYPERCALL_ENTRY)? + prices.of(CostKey::MMU_UPDATE_CALL)?;
    let each = prices.of(CostKey::MAP_REST)? + prices.of(CostKey::MMU_UPDATE_MAP_FOREIGN)?;
    Ok(each + call / batch)
}

fn mmapbatch() -> Result<Model, BillingError> {
    Ok(Box::new(|prices, _| {
        Ok(foreign_map(prices, 1.0)? - foreign_map(prices, REMAP_BATCH)?)
    }))
}

/// What a switch between tasks with the same TLS descriptors saves.
fn tls_descriptors() -> Result<Model, BillingError> {
    let switched = |how: LoadTls| -> Result<Priced, BillingError> {
        let walked = linux::switch(ITEMS, how, 0)?;
        Ok(Priced::new((Operation::Switch(0), how.name()), walked))
    };
    let (before, after) = (switched(LoadTls::Always)?, switched(LoadTls::IfChanged)?);
    Ok(Box::new(move |prices, _| {
        Ok(before.cost(prices)? - after.cost(prices)?)
    }))
}

/// A 32-bit guest's page fault: the entry, and all that is paid beside it.
fn fault_32bit() -> Result<Model, BillingError> {
    let set = |how: SetPte| -> Result<Priced, BillingError> {
        let walked = linux::fault(Pages(ITEMS), how)?;
        Ok(Priced::new((Operation::Set, how.name()), walked))
    };
    let (before, after) = (set(SetPte::Emulate2x32)?, set(SetPte::Hypercall)?);
    Ok(Box::new(move |prices, _| {
        let rest = prices.of(CostKey::FAULT_REST)?;
        Ok((rest + before.cost(prices)?) / (rest + after.cost(prices)?))
    }))
}

/// A kernel operation that enables events once, none pending but once in a thousand times.
fn xen_version() -> Result<Model, BillingError> {
    let enabled = |mechanism: EnableEvents| -> Result<Priced, BillingError> {
        let pending_every = NonZeroU64::new(1024);
        let walked = linux::irq(
            ITEMS,
            Irq {
                mechanism,
                pending_every,
            },
        )?;
        Ok(Priced::new(
            (Operation::EnableIdle, mechanism.name()),
            walked,
        ))
    };
    let before = enabled(EnableEvents::Always)?;
    let after = enabled(EnableEvents::IfPending)?;
    Ok(Box::new(move |prices, _| {
        let rest = prices.of(CostKey::IRQ_REST)?;
        Ok((rest + before.cost(prices)?) / (rest + after.cost(prices)?))
    }))
}
