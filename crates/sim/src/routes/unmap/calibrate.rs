//! Figures from rows of unmap: of a 64-bit dom0 and of a 32-bit one.

use pagetoll_bill::route::Unmap;
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{RouteMechanism, Row};
use pagetoll_cost::{CostKey, Derived};
use pagetoll_models::linux::{self, Zap};
use pagetoll_models::xen::Width;
use pagetoll_units::Pages;

use crate::routes::derived::{Rows, assumed, measured, only, part, rows, source_32_bit, value};
use crate::routes::price::per_item;

/// Figures from the rows of a 64-bit dom0; `None` where a row is missing.
pub(crate) fn figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let read = part(bill, Baseline::Read)?;
    let entry = part(bill, Baseline::EmptyHypercall)? - read;
    let mut figures = vec![
        measured(CostKey::ENTRY_READ, read, "row read"),
        measured(
            CostKey::HYPERCALL_ENTRY,
            entry,
            "rows empty-hypercall less read",
        ),
    ];
    for batched in BATCHED {
        figures.extend(batched.figures(bill, read, entry)?);
    }
    let clear = value(&figures, CostKey::MMU_UPDATE_CLEAR)?;
    let set_pte = only(bill, Unmap::SetPte)? - read - entry - clear;
    let update_va = only(bill, Unmap::UpdateVa)? - read - entry;
    let ptwr = only(bill, Unmap::Emulate)?;
    figures.extend([
        measured(
            CostKey::SET_PTE_CALL,
            set_pte,
            "row set-pte less entry.read, hypercall.entry and mmu_update.clear",
        ),
        measured(
            CostKey::UPDATE_VA_MAPPING_CLEAR,
            update_va,
            "row update-va less entry.read and hypercall.entry",
        ),
        measured(CostKey::PTWR_XCHG, ptwr, "row emulate"),
    ]);
    figures.extend(unmeasured(&figures)?);
    Some(figures)
}

/// A mechanism that takes several entries, and its two figures.
struct Batched {
    mechanism: Unmap,
    /// Number of times that each entry is read.
    reads: f64,
    per_call: CostKey,
    per_entry: CostKey,
}

const BATCHED: [Batched; 3] = [
    Batched {
        mechanism: Unmap::MmuUpdate,
        reads: 1.0,
        per_call: CostKey::MMU_UPDATE_CALL,
        per_entry: CostKey::MMU_UPDATE_CLEAR,
    },
    Batched {
        mechanism: Unmap::PreserveAd,
        reads: 2.0,
        per_call: CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL,
        per_entry: CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD,
    },
    Batched {
        mechanism: Unmap::Lazy,
        reads: 1.0,
        per_call: CostKey::LAZY_CALL,
        per_entry: CostKey::LAZY_CLEAR,
    },
];

impl Batched {
    fn figures(&self, bill: Rows<'_>, read: f64, entry: f64) -> Option<[Derived; 2]> {
        let reads = self.reads;
        let ends = ends(bill, self.mechanism)?;
        let from = format!(
            "rows {} at the smallest and largest batch",
            self.mechanism.properties().name
        );
        Some([
            measured(
                self.per_call,
                ends.per_call - entry,
                &format!("{from}: cost over calls, less hypercall.entry"),
            ),
            measured(
                self.per_entry,
                ends.per_entry - reads * read,
                &format!("{from}: what is left at no calls, less {reads} entry.read"),
            ),
        ])
    }
}

/// A 32-bit guest's: an emulated exchange of the half that holds P, by itself; cmpxchg8b; and the hypercall, whose entry
/// the fault route gives.
pub(crate) fn pae_figures(bill: Rows<'_>) -> Option<Vec<Derived>> {
    let whose = source_32_bit(bill);
    let read = part(bill, Baseline::Read)?;
    let entry = part(bill, Baseline::EmptyHypercall)? - read;
    let ends = ends(bill, Unmap::PreserveAd)?;
    let from = format!("{whose} rows preserve-ad at the smallest and largest batch");
    let row = |name: &str| format!("{whose} row {name}");
    Some(vec![
        measured(CostKey::ENTRY_READ_PAE, read, &row("read")),
        measured(
            CostKey::PTWR_HALF_XCHG,
            part(bill, Baseline::XchgLowerHalf)?,
            &row("xchg-lower-half"),
        ),
        measured(
            CostKey::PTWR_CMPXCHG8B,
            only(bill, Unmap::Cmpxchg8b)? - read,
            &row("cmpxchg8b less read"),
        ),
        measured(
            CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL_PAE,
            ends.per_call - entry,
            &format!("{from}: cost over calls, less an empty hypercall"),
        ),
        measured(
            CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_PAE,
            ends.per_entry - 2.0 * read,
            &format!("{from}: what is left at no calls, less 2 entry.read.pae"),
        ),
    ])
}

/// Figures of the exchange hypercall, which no guest of the lab has: it is a proposal.
fn unmeasured(figures: &[Derived]) -> Option<Vec<Derived>> {
    let call = value(figures, CostKey::MMU_UPDATE_CALL)?;
    let preserving = value(figures, CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD)?;
    Some(vec![
        assumed(CostKey::XCHG_CALL, call, "as mmu_update.call"),
        assumed(
            CostKey::XCHG_CLEAR,
            preserving,
            "as mmu_update.clear.preserve-ad: an old value is copied out instead of A and D read back",
        ),
    ])
}

/// Pages of a page table, at which a batch ends.
const TABLE: Pages = Pages(512);

/// Costs from the rows of a mechanism at its smallest and largest batch.
struct Ends {
    /// Cost of one more call.
    per_call: f64,
    /// Cost of an entry without calls.
    per_entry: f64,
}

fn ends(bill: Rows<'_>, mechanism: Unmap) -> Option<Ends> {
    let all = || rows(bill, mechanism.into());
    let smallest = all().min_by_key(|row| row.key.batch)?;
    let largest = all().max_by_key(|row| row.key.batch)?;
    let (most, fewest) = (calls(smallest, mechanism)?, calls(largest, mechanism)?);
    let (of_most, of_fewest) = (smallest.cost()?, largest.cost()?);
    if most <= fewest {
        return None;
    }
    let per_call = (of_most - of_fewest) / (most - fewest);
    Some(Ends {
        per_call,
        per_entry: of_most - per_call * most,
    })
}

/// Calls for each entry: as Xen counted them, or else as many as the model makes.
fn calls(row: &Row, mechanism: Unmap) -> Option<f64> {
    if let Some(counted) = row.crossings() {
        return Some(counted.hypercalls());
    }
    let zap = Zap {
        mechanism: super::model(mechanism),
        batch: row.key.batch,
    };
    let walked = linux::unmap(TABLE, zap, Width::Bits64).ok()?;
    Some(per_item(walked.tolls.hypercalls, walked.items))
}
