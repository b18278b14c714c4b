//! Expressions of published figures, in counts of the simulated system and prices of a table.

use std::num::NonZeroU64;

use pagetoll_bill::route::{Fault, Irq, Switch};
use pagetoll_cost::{CostError, CostKey, Prices};
use pagetoll_units::Pages;

use crate::contention::flush_lock::WaitsWith;
use crate::error::BillingError;
use crate::routes::pin::shape::{self, Extent, PAGES_2M, PAGES_4K, Shape, THP};
use crate::routes::pin::tariff::{Ioctl, MAP, UNMAP};
use crate::routes::price;
use crate::routes::price::{Counted, Item};
use crate::routes::tariff::item;
use crate::routes::{fault, flush, irq, switch};
use pagetoll_host_models::vfio::Mechanism::{self, PerBatch, PerFolio, PerPage};
use pagetoll_host_models::vfio::Tolls;
use pagetoll_models::linux::{self, ForeignMap, ForeignMapRuns, GetAndClear, RouteRun, Zap};
use pagetoll_models::xen::FullFlush;
use pagetoll_models::xen::Width;
use pagetoll_xentrace::lock_profile::LockProfile;

/// The tables that price comparisons.
const PV_DOM0: &str = "xen-pv-dom0";
const PV_SHIM: &str = "amd-pv-shim-32";
const VFIO_HOST: &str = "vfio-host";

/// Pages, switches or enables that a comparison runs: enough that no table or batch is cut.
const ITEMS: u64 = 4096;
/// Entries that Linux gathers in lazy MMU mode while it unmaps a page table (mm/memory.c, `zap_pte_range`).
const LAZY_BATCH: u32 = 512;

/// Computes the figure for one set of prices, and a seed for whatever is random in it.
pub(crate) type Model = Box<dyn Fn(&Prices<'_>, u64) -> Result<f64, BillingError> + Send + Sync>;

/// Expression of one published figure.
pub(crate) struct Expression {
    id: &'static str,
    /// The table that prices it.
    pub(crate) costs: &'static str,
    /// Runs the route; prices are attached later.
    pub(crate) prepare: fn() -> Result<Model, BillingError>,
}

const fn on_pv_dom0(id: &'static str, prepare: fn() -> Result<Model, BillingError>) -> Expression {
    Expression {
        id,
        costs: PV_DOM0,
        prepare,
    }
}

const fn on_pv_shim(id: &'static str, prepare: fn() -> Result<Model, BillingError>) -> Expression {
    Expression {
        id,
        costs: PV_SHIM,
        prepare,
    }
}

const fn on_vfio_host(
    id: &'static str,
    prepare: fn() -> Result<Model, BillingError>,
) -> Expression {
    Expression {
        id,
        costs: VFIO_HOST,
        prepare,
    }
}

const EXPRESSIONS: [Expression; 31] = [
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
    on_vfio_host("vfio-map.4K.per-page", || {
        Ok(time_of(MAP, PAGES_4K, PerPage))
    }),
    on_vfio_host("vfio-map.4K.per-folio", || {
        Ok(time_of(MAP, PAGES_4K, PerFolio))
    }),
    on_vfio_host("vfio-map.THP.per-page", || Ok(time_of(MAP, THP, PerPage))),
    on_vfio_host("vfio-map.THP.per-folio", || Ok(time_of(MAP, THP, PerFolio))),
    on_vfio_host("vfio-map.2M.per-page", || {
        Ok(time_of(MAP, PAGES_2M, PerPage))
    }),
    on_vfio_host("vfio-map.2M.per-folio", || {
        Ok(time_of(MAP, PAGES_2M, PerFolio))
    }),
    on_vfio_host("vfio-map.2M.ratio", || {
        Ok(ratio_of(MAP, PAGES_2M, [PerPage, PerFolio]))
    }),
    on_vfio_host("vfio-unmap.4K.per-page", || {
        Ok(time_of(UNMAP, PAGES_4K, PerPage))
    }),
    on_vfio_host("vfio-unmap.4K.per-folio", || {
        Ok(time_of(UNMAP, PAGES_4K, PerFolio))
    }),
    on_vfio_host("vfio-unmap.THP.per-page", || {
        Ok(time_of(UNMAP, THP, PerPage))
    }),
    on_vfio_host("vfio-unmap.THP.per-folio", || {
        Ok(time_of(UNMAP, THP, PerFolio))
    }),
    on_vfio_host("vfio-unmap.2M.per-page", || {
        Ok(time_of(UNMAP, PAGES_2M, PerPage))
    }),
    on_vfio_host("vfio-unmap.2M.per-folio", || {
        Ok(time_of(UNMAP, PAGES_2M, PerFolio))
    }),
    on_vfio_host("vfio-unmap.2M.ratio", || {
        Ok(ratio_of(UNMAP, PAGES_2M, [PerPage, PerFolio]))
    }),
    on_vfio_host("vfio-pin-map.2M.per-page", || {
        Ok(time_of(MAP, PAGES_2M, PerPage))
    }),
    on_vfio_host("vfio-pin-map.2M.per-batch", || {
        Ok(time_of(MAP, PAGES_2M, PerBatch))
    }),
    on_vfio_host("vfio-pin-map.2M.ratio", || {
        Ok(ratio_of(MAP, PAGES_2M, [PerPage, PerBatch]))
    }),
];

/// The expression for a published figure.
pub(crate) fn named(id: &str) -> Option<&'static Expression> {
    EXPRESSIONS.iter().find(|expression| expression.id == id)
}

/// A mechanism that was run, ready to be priced.
struct Priced<C = RouteRun> {
    tariff: Vec<Item<C>>,
    counted: Counted<C>,
}

impl<C> Priced<C> {
    /// Cost of an item, in the table's unit.
    fn cost(&self, prices: &Prices<'_>) -> Result<f64, CostError> {
        price::cost_of(&self.tariff, &self.counted, prices)
    }
}

/// Pages of the domain, and of one mapping of it: the program's second argument, which was not published. Assumed; from
/// 64 on the result does not depend on it.
const FOREIGN: (Pages, Pages) = (Pages(1 << 15), Pages(1024));

/// Maps and unmaps a domain's memory.
fn foreign(mechanism: GetAndClear, batch: u32) -> Result<ForeignMapRuns, BillingError> {
    let (pages, mapping) = FOREIGN;
    let zap = Zap { mechanism, batch };
    let asked = ForeignMap {
        pages,
        batch: mapping,
        zap,
    };
    Ok(linux::foreign_map(asked)?)
}

/// Items that mapping pays for.
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

/// Items that unmapping pays for, beside clearing entries.
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

/// The program of a domain's memory that is mapped and unmapped: native get-and-clear against `set_pte` in lazy mode,
/// which is what the generic `ptep_get_and_clear` comes to there.
fn foreign_map_unmap() -> Result<Model, BillingError> {
    let before = foreign(GetAndClear::Emulate, 1)?;
    let after = foreign(GetAndClear::Lazy, LAZY_BATCH)?;
    let program = |walked: ForeignMapRuns, tariff: Vec<Item>| {
        let map = Priced {
            tariff: mapping(),
            counted: walked.map.into(),
        };
        let unmap = Priced {
            tariff,
            counted: walked.unmap.into(),
        };
        move |prices: &Prices<'_>| Ok::<_, CostError>(map.cost(prices)? + unmap.cost(prices)?)
    };
    let mut unmapping_lazily = unmapping();
    unmapping_lazily.extend([
        item("per-call", CostKey::LAZY_CALL, |w| w.tolls.mmu_update),
        item("per-entry", CostKey::LAZY_CLEAR, |w| w.items),
    ]);
    let (before, after) = (
        program(before, unmapping()),
        program(after, unmapping_lazily),
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
    let priced = |walked: RouteRun| Priced {
        tariff: mapping(),
        counted: walked.into(),
    };
    let (before, after) = (priced(one_by_one), priced(walked));
    Ok(Box::new(move |prices, _| {
        Ok(before.cost(prices)? - after.cost(prices)?)
    }))
}

/// Saving of a switch between tasks with the same TLS descriptors.
fn tls_descriptors() -> Result<Model, BillingError> {
    let switched = |how: Switch| -> Result<Priced, BillingError> {
        Ok(Priced {
            tariff: switch::tariff::items(how),
            counted: linux::switch(ITEMS, switch::model(how), 0)?.into(),
        })
    };
    let (before, after) = (switched(Switch::Always)?, switched(Switch::IfChanged)?);
    Ok(Box::new(move |prices, _| {
        Ok(before.cost(prices)? - after.cost(prices)?)
    }))
}

/// A 32-bit guest's page fault: the entry, and all that is paid beside it.
fn fault_32bit() -> Result<Model, BillingError> {
    let set = |how: Fault| -> Result<Priced, BillingError> {
        Ok(Priced {
            tariff: fault::tariff::items(how, Width::Pae32),
            counted: linux::fault(Pages(ITEMS), fault::model(how), Width::Pae32)?.into(),
        })
    };
    ratio_beside(
        CostKey::FAULT_REST,
        set(Fault::Emulate2x32)?,
        set(Fault::Hypercall)?,
    )
}

/// A kernel operation that unmasks events once, none pending but once in a thousand times.
fn xen_version() -> Result<Model, BillingError> {
    let unmasked = |how: Irq| -> Result<Priced, BillingError> {
        let unmasking = linux::Irq {
            mechanism: irq::model(how),
            pending_every: NonZeroU64::new(1024),
        };
        Ok(Priced {
            tariff: irq::tariff::items(how),
            counted: linux::irq(ITEMS, unmasking)?.into(),
        })
    };
    ratio_beside(
        CostKey::IRQ_REST,
        unmasked(Irq::Always)?,
        unmasked(Irq::IfPending)?,
    )
}

/// Before over after, each with what is paid beside it either way.
fn ratio_beside(rest: CostKey, before: Priced, after: Priced) -> Result<Model, BillingError> {
    Ok(Box::new(move |prices, _| {
        let rest = prices.price(rest)?;
        Ok((rest + before.cost(prices)?) / (rest + after.cost(prices)?))
    }))
}

/// Pages that VFIO maps. What is published of it is of two and four million, where nothing is left to add of an ioctl.
const PINNED: u64 = 1 << 16;

/// Memory that is mapped or unmapped by VFIO.
fn pinned(ioctl: Ioctl, shape: Shape, how: Mechanism) -> Priced<Tolls> {
    let ran = shape::run(how, shape, Extent::new(PINNED));
    let (tariff, counted) = ioctl.paid(&ran);
    Priced { tariff, counted }
}

/// Time of a page.
fn time_of(ioctl: Ioctl, shape: Shape, how: Mechanism) -> Model {
    let page = pinned(ioctl, shape, how);
    Box::new(move |prices, _| Ok(page.cost(prices)?))
}

/// Ratio of before to after.
fn ratio_of(ioctl: Ioctl, shape: Shape, [before, after]: [Mechanism; 2]) -> Model {
    let before = pinned(ioctl, shape, before);
    let after = pinned(ioctl, shape, after);
    Box::new(move |prices, _| Ok(before.cost(prices)? / after.cost(prices)?))
}

/// Flushes of a run: a few hundred for each vCPU. The published profiles are of two million.
const FLUSHES: u64 = 8192;

/// Form of a full flush, and the hold of the lock for one without global pages.
#[derive(Clone, Copy)]
struct Profiled {
    flush: FullFlush,
    hold_pge_off: CostKey,
}

const PGE_ON: Profiled = Profiled {
    flush: FullFlush::Cr4Toggle,
    hold_pge_off: CostKey::FLUSH_HOLD_PGE_OFF,
};
const PGE_OFF: Profiled = Profiled {
    flush: FullFlush::Cr3Write,
    ..PGE_ON
};
const NO_SHORTHAND: Profiled = Profiled {
    hold_pge_off: CostKey::FLUSH_HOLD_NO_SHORTHAND,
    ..PGE_OFF
};
const SHORTHAND: Profiled = Profiled {
    hold_pge_off: CostKey::FLUSH_HOLD_SHORTHAND,
    ..PGE_OFF
};

fn mean_block(profile: &LockProfile) -> f64 {
    profile.block.mean()
}

/// A figure of the profile of `flush_lock`.
fn flush_lock(profiled: Profiled, figure: fn(&LockProfile) -> f64) -> Result<Model, BillingError> {
    let setting = flush::Setting {
        flush: profiled.flush,
        hold_pge_off: profiled.hold_pge_off,
        flushes: FLUSHES,
        waits: WaitsWith::InterruptsOn,
    };
    Ok(Box::new(move |prices, seed| {
        Ok(figure(&flush::profile(prices, setting, seed)?))
    }))
}
