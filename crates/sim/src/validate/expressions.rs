//! Expressions of published figures, in counts of the simulated system and prices of a table.

use pagetoll_cost::{CostError, CostKey, Prices};
use pagetoll_units::Pages;

use crate::error::BillingError;
use crate::routes::price;
use crate::routes::price::{Counted, Item};
use crate::routes::tariff::item;
use pagetoll_models::linux::{self, ForeignMap, ForeignMapRuns, GetAndClear, RouteRun, Zap};

/// The table that prices them.
const PV_DOM0: &str = "xen-pv-dom0";

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

const EXPRESSIONS: [Expression; 2] = [
    on_pv_dom0("foreign-map-unmap.ratio", foreign_map_unmap),
    on_pv_dom0("mmapbatch-v2.saved", mmapbatch),
];

/// The expression for a published figure.
pub(crate) fn named(id: &str) -> Option<&'static Expression> {
    EXPRESSIONS.iter().find(|expression| expression.id == id)
}

/// A mechanism that was run, ready to be priced.
struct Priced {
    tariff: Vec<Item>,
    counted: Counted<RouteRun>,
}

impl Priced {
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
