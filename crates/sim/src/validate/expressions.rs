//! How each published figure is computed: from what was counted on the simulated system, and the prices of a table.

use std::num::NonZeroU64;

use pagetoll_bill::System;
use pagetoll_bill::cost::{CostKey, HostError, Prices};
use pagetoll_units::Pages;

use crate::contention::flush_lock::WaitsWith;
use crate::contention::flush_lock::lock_profile::LockProfile;
use crate::routes::cells::Operation;
use crate::routes::price;
use crate::routes::tariff::{self, Item, item};
use crate::routes::{BillingError, flush};
use pagetoll_models::linux::{
    self, EnableEvents, ForeignMap, ForeignMapped, GetAndClear, Irq, LoadTls, SetPte, Walked, Zap,
};
use pagetoll_models::xen::Width;
use pagetoll_models::xen::cr4::FullFlush;

/// The tables that price comparisons.
pub const HOSTS: [&str; 2] = [PV_DOM0, PV_SHIM];

const PV_DOM0: &str = "xen-pv-dom0";
const PV_SHIM: &str = "amd-pv-shim-32";

/// Pages, switches or enables that a comparison travels: enough that no table or batch is cut.
const ITEMS: u64 = 4096;
/// Entries that Linux gathers in lazy MMU mode while it unmaps a page table (mm/memory.c, `zap_pte_range`).
const LAZY_BATCH: u32 = 512;

/// Computes the figure for one set of prices, and a seed for whatever is random in it.
pub(crate) type Model = Box<dyn Fn(&Prices<'_>, u64) -> Result<f64, BillingError> + Send + Sync>;

/// How one published figure is computed.
pub(crate) struct Expression {
    id: &'static str,
    /// The table that prices it.
    pub(crate) host: &'static str,
    /// Travels what is to be priced.
    pub(crate) prepare: fn() -> Result<Model, BillingError>,
}

const fn on_pv_dom0(id: &'static str, prepare: fn() -> Result<Model, BillingError>) -> Expression {
    Expression {
        id,
        host: PV_DOM0,
        prepare,
    }
}

const fn on_pv_shim(id: &'static str, prepare: fn() -> Result<Model, BillingError>) -> Expression {
    Expression {
        id,
        host: PV_SHIM,
        prepare,
    }
}

const EXPRESSIONS: [Expression; 14] = [
    on_pv_dom0("foreign-map-unmap.ratio", foreign_map_unmap),
    on_pv_dom0("mmapbatch-v2.saved", mmapbatch),
    on_pv_dom0("tls-descriptors.lat_ctx", tls_descriptors),
    on_pv_dom0("tls-descriptors.lat_pipe", tls_descriptors),
    on_pv_dom0("fault-32bit.ratio", fault_32bit),
    on_pv_dom0("xen-version.ratio", xen_version),
    on_pv_shim("flush-lock.block.no-shorthand", || {
        flush_lock(NO_SHORTHAND, mean_block)
    }),
    on_pv_shim("flush-lock.block.shorthand", || {
        flush_lock(SHORTHAND, mean_block)
    }),
    on_pv_shim("flush-lock.blocked.no-shorthand", || {
        flush_lock(NO_SHORTHAND, LockProfile::share_blocked)
    }),
    on_pv_shim("flush-lock.blocked.shorthand", || {
        flush_lock(SHORTHAND, LockProfile::share_blocked)
    }),
    on_pv_shim("flush-lock.block.pge-on", || flush_lock(PGE_ON, mean_block)),
    on_pv_shim("flush-lock.block.pge-off", || {
        flush_lock(PGE_OFF, mean_block)
    }),
    on_pv_shim("flush-lock.blocked.pge-on", || {
        flush_lock(PGE_ON, LockProfile::share_blocked)
    }),
    on_pv_shim("flush-lock.blocked.pge-off", || {
        flush_lock(PGE_OFF, LockProfile::share_blocked)
    }),
];

/// The expression for a published figure.
pub(crate) fn named(id: &str) -> Option<&'static Expression> {
    EXPRESSIONS.iter().find(|expression| expression.id == id)
}

/// A mechanism that was travelled, ready to be priced.
struct Priced {
    tariff: Vec<Item>,
    walked: Walked,
}

impl Priced {
    fn new((cell, mechanism): ((Operation, System), &str), walked: Walked) -> Self {
        Self {
            tariff: tariff::of(cell, mechanism),
            walked,
        }
    }

    /// For each item, in the table's unit.
    fn cost(&self, prices: &Prices<'_>) -> Result<f64, HostError> {
        price::cost_of(&self.tariff, &self.walked, prices)
    }
}

/// Pages of the domain, and of one mapping of it: the program's second argument, which was not published. Assumed; from
/// 64 on the result does not depend on it.
const FOREIGN: (Pages, Pages) = (Pages(1 << 15), Pages(1024));

/// Maps and unmaps a domain's memory.
fn foreign(mechanism: GetAndClear, batch: u32) -> Result<ForeignMapped, BillingError> {
    let (pages, mapping) = FOREIGN;
    let zap = Zap { mechanism, batch };
    let asked = ForeignMap {
        pages,
        batch: mapping,
        zap,
    };
    Ok(linux::foreign_map(asked)?)
}

/// What mapping pays for.
fn mapping() -> Vec<Item> {
    vec![
        item("hypercall-entry", CostKey::HYPERCALL_ENTRY, |w| {
            w.tolls.hypercalls
        }),
        item("per-call", CostKey::MMU_UPDATE_CALL, |w| w.tolls.mmu_update),
        item("map", CostKey::MMU_UPDATE_MAP_FOREIGN, |w| w.items),
        item("map-rest", CostKey::MAP_REST, |w| w.items),
    ]
}

/// What unmapping pays for, beside clearing entries.
fn unmapping() -> Vec<Item> {
    vec![
        item("read-entry", CostKey::ENTRY_READ, |w| w.tolls.entries_read),
        item("hypercall-entry", CostKey::HYPERCALL_ENTRY, |w| {
            w.tolls.hypercalls
        }),
        item("unmap-rest", CostKey::MUNMAP_REST, |w| w.items),
        item("trap-and-emulate", CostKey::PTWR_XCHG, |w| {
            w.tolls.emulations
        }),
    ]
}

/// The same where the kernel clears through lazy MMU mode.
fn unmapping_lazily() -> Vec<Item> {
    let mut items = unmapping();
    items.extend([
        item("per-call", CostKey::LAZY_CALL, |w| w.tolls.mmu_update),
        item("per-entry", CostKey::LAZY_CLEAR, |w| w.items),
    ]);
    items
}

/// The program of a domain's memory that is mapped and unmapped: native get-and-clear against `set_pte` in lazy mode,
/// which is what the generic `ptep_get_and_clear` comes to there.
fn foreign_map_unmap() -> Result<Model, BillingError> {
    let before = foreign(GetAndClear::Emulate, 1)?;
    let after = foreign(GetAndClear::Lazy, LAZY_BATCH)?;
    let program = |walked: ForeignMapped, tariff: Vec<Item>| {
        let map = Priced {
            tariff: mapping(),
            walked: walked.map,
        };
        let unmap = Priced {
            tariff,
            walked: walked.unmap,
        };
        move |prices: &Prices<'_>| Ok::<_, HostError>(map.cost(prices)? + unmap.cost(prices)?)
    };
    let (before, after) = (
        program(before, unmapping()),
        program(after, unmapping_lazily()),
    );
    Ok(Box::new(move |prices, _| {
        Ok(before(prices)? / after(prices)?)
    }))
}

/// Frames one by one, as privcmd mapped them before, against as many as one `mmu_update` takes now
/// (arch/x86/xen/mmu_pv.c, `REMAP_BATCH_SIZE`).
fn mmapbatch() -> Result<Model, BillingError> {
    let walked = foreign(GetAndClear::Emulate, 1)?.map;
    let mut one_by_one = walked;
    one_by_one.tolls.hypercalls = walked.items;
    one_by_one.tolls.mmu_update = walked.items;
    let priced = |walked| Priced {
        tariff: mapping(),
        walked,
    };
    let (before, after) = (priced(one_by_one), priced(walked));
    Ok(Box::new(move |prices, _| {
        Ok(before.cost(prices)? - after.cost(prices)?)
    }))
}

/// What a switch between tasks with the same TLS descriptors saves.
fn tls_descriptors() -> Result<Model, BillingError> {
    let switched = |how: LoadTls| -> Result<Priced, BillingError> {
        let walked = linux::switch(ITEMS, how, 0)?;
        let cell = (Operation::Switch(0), System::XenPvDom0);
        Ok(Priced::new((cell, how.name()), walked))
    };
    let (before, after) = (switched(LoadTls::Always)?, switched(LoadTls::IfChanged)?);
    Ok(Box::new(move |prices, _| {
        Ok(before.cost(prices)? - after.cost(prices)?)
    }))
}

/// A 32-bit guest's page fault: the entry, and all that is paid beside it.
fn fault_32bit() -> Result<Model, BillingError> {
    let set = |how: SetPte| -> Result<Priced, BillingError> {
        let walked = linux::fault(Pages(ITEMS), how, Width::Pae32)?;
        let cell = (Operation::Set, System::XenPv32Dom0);
        Ok(Priced::new((cell, how.name()), walked))
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
        let cell = (Operation::EnableIdle, System::XenPvDom0);
        Ok(Priced::new((cell, mechanism.name()), walked))
    };
    let before = enabled(EnableEvents::Always)?;
    let after = enabled(EnableEvents::IfPending)?;
    Ok(Box::new(move |prices, _| {
        let rest = prices.of(CostKey::IRQ_REST)?;
        Ok((rest + before.cost(prices)?) / (rest + after.cost(prices)?))
    }))
}

/// Flushes of a run: a few hundred for each vCPU. The published profiles are of two million.
const FLUSHES: u64 = 8192;

/// What a full flush is, and how long the lock is held for one without global pages.
type Profiled = (FullFlush, CostKey);

const PGE_ON: Profiled = (FullFlush::Cr4Toggle, CostKey::FLUSH_HOLD_PGE_OFF);
const PGE_OFF: Profiled = (FullFlush::Cr3Write, CostKey::FLUSH_HOLD_PGE_OFF);
const NO_SHORTHAND: Profiled = (FullFlush::Cr3Write, CostKey::FLUSH_HOLD_NO_SHORTHAND);
const SHORTHAND: Profiled = (FullFlush::Cr3Write, CostKey::FLUSH_HOLD_SHORTHAND);

fn mean_block(profile: &LockProfile) -> f64 {
    profile.block.mean()
}

/// Something that the profile of `flush_lock` says.
fn flush_lock(
    (flush, hold_pge_off): Profiled,
    says: fn(&LockProfile) -> f64,
) -> Result<Model, BillingError> {
    let setting = flush::Setting {
        flush,
        hold_pge_off,
        flushes: FLUSHES,
        waits: WaitsWith::InterruptsOn,
    };
    Ok(Box::new(move |prices, seed| {
        Ok(says(&flush::profile(prices, setting, seed)?))
    }))
}
