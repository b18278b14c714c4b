//! Figures of a cost table from bills of the lab's pin route.
//!
//! The model runs the very shapes that were billed. What it counts times the figures is what the lab counted: an
//! equation for each shape, solved for the figures. Only folios of 2 MiB are read, so that pages of 4 KiB, THP and
//! pages of 1 GiB are left for predictions to be held against.
//!
//! A kernel that takes pages one by one does two steps for every page, which its bills cannot separate; one that takes
//! folios does not know a third. What a kernel lacks is taken from another one of the bills, and is then assumed.

mod equations;

use std::collections::BTreeMap;

use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::Iommu;
use pagetoll_bill::{Backend, Bill, Operation, Route, Unit};
use pagetoll_cost::{CostKey, Derived, Kind};
use thiserror::Error;

use self::equations::{Counted, OfShape, Solution, System, at_39, at_48};
use super::tariff::{MAP, UNMAP};
use pagetoll_host_models::vfio::Mechanism;

/// Spread of a figure that is taken from another kernel: 10 % either way.
const ASSUMED_SPREAD: f64 = 0.1;
/// A kernel for which one folio more costs less unpins page by page: a turn of the loop in
/// `unpin_user_page_range_dirty_lock` (mm/gup.c) with its atomic operations takes more instructions than that.
const LEAST_OF_A_FOLIO: f64 = 20.0;

/// The shapes that are read, each a row of the lab's bill on an IOMMU of 39 bits.
pub const SHAPES: [Folio; 8] = [
    Folio::Pages2m,
    Folio::Entries2m,
    Folio::First2m,
    Folio::Shifted2m,
    Folio::Pairs2m,
    Folio::Straddle2m,
    Folio::Apart2m,
    Folio::Each2m,
];

/// Reason why bills give no table.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Unsolved {
    /// A row is not there.
    #[error(
        "no row {operation} of {shape} of Linux {kernel} in {}; expected bills of: pagetoll bill pin --folio {}, \
         and --folio 2M --iommu vt-d-48", iommu.described(), SHAPES.map(Folio::name).join(",")
    )]
    Row {
        /// Mapping or unmapping.
        operation: Operation,
        /// The shape.
        shape: Folio,
        /// The kernel.
        kernel: String,
        /// IOMMU that memory was mapped in.
        iommu: Iommu,
    },
    /// A kernel that is in none of the bills.
    #[error("no rows of Linux {asked}; expected one of {known}")]
    Kernel {
        /// Kernel that was asked for.
        asked: String,
        /// The kernels of the bills.
        known: String,
    },
    /// A kernel that unpins page by page, alone.
    #[error(
        "Linux {0} takes pages one by one, which does not separate a page's steps; expected rows of a kernel that takes folios \
         (6.18 or later) beside it"
    )]
    Alone(String),
    /// Equations that say the same twice.
    #[error(
        "{operation} of Linux {kernel}: the rows do not separate the steps; expected those that the lab makes"
    )]
    Singular {
        /// Mapping or unmapping.
        operation: Operation,
        /// The kernel.
        kernel: String,
    },
}

/// The kernels that the bills have rows of, each once.
#[must_use]
pub fn kernels(bills: &[Bill]) -> Vec<String> {
    let mut kernels = Vec::new();
    for kernel in lab_bills(bills)
        .flat_map(|bill| &bill.rows)
        .filter_map(|row| row.key.kernel.clone())
    {
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    kernels
}

fn lab_bills(bills: &[Bill]) -> impl Iterator<Item = &Bill> {
    bills.iter().filter(|bill| {
        bill.route == Route::Pin && bill.backend == Backend::Lab && bill.unit == Unit::Instructions
    })
}

/// The figures of a kernel.
///
/// # Errors
/// [`Unsolved`]: what the bills lack.
pub fn figures(bills: &[Bill], kernel: &str) -> Result<Vec<Derived>, Unsolved> {
    let known = kernels(bills);
    if !known.iter().any(|other| other == kernel) {
        return Err(Unsolved::Kernel {
            asked: kernel.to_owned(),
            known: known.join(", "),
        });
    }
    let mechanism = manner(bills, kernel)?;
    let mut others = known.iter().filter(|other| *other != kernel);
    let other = others.find(|other| manner(bills, other).ok() != Some(mechanism));
    match (mechanism, other) {
        (Mechanism::PerPage, None) => Err(Unsolved::Alone(kernel.to_owned())),
        (Mechanism::PerPage, Some(other)) => {
            let folios = solved(bills, other, &BTreeMap::new())?;
            let own = solved(bills, kernel, &values(&folios))?;
            Ok(joined(own, assumed(folios, other)))
        }
        (_, other) => {
            let own = solved(bills, kernel, &BTreeMap::new())?;
            let Some(other) = other else { return Ok(own) };
            let pages = solved(bills, other, &values(&own))?;
            Ok(joined(own, assumed(pages, other)))
        }
    }
}

/// Finds out whether a kernel takes pages or folios, by the cost of unpinning one folio more.
fn manner(bills: &[Bill], kernel: &str) -> Result<Mechanism, Unsolved> {
    let of_folios = UNMAP_BY_FOLIO.solve(Counted { bills, kernel }, &BTreeMap::new())?;
    let folio = of_folios
        .iter()
        .find(|solved| solved.key == CostKey::UNPIN_FOLIO);
    let costs = folio.is_some_and(|folio| folio.value >= LEAST_OF_A_FOLIO);
    Ok(if costs {
        Mechanism::PerFolio
    } else {
        Mechanism::PerPage
    })
}

fn solved(
    bills: &[Bill],
    kernel: &str,
    known: &BTreeMap<CostKey, f64>,
) -> Result<Vec<Derived>, Unsolved> {
    let systems = match manner(bills, kernel)? {
        Mechanism::PerPage => [MAP_BY_PAGE, UNMAP_BY_PAGE],
        Mechanism::PerBatch | Mechanism::PerFolio | Mechanism::Range => {
            [MAP_BY_FOLIO, UNMAP_BY_FOLIO]
        }
    };
    let mut figures = Vec::new();
    for system in systems {
        let solved = system.solve(Counted { bills, kernel }, known)?;
        figures.extend(solved.into_iter().map(|one| measured(&system, one)));
    }
    Ok(figures)
}

fn measured(system: &System, solved: Solution) -> Derived {
    Derived {
        key: solved.key,
        value: solved.value,
        low: solved.value - solved.spread,
        high: solved.value + solved.spread,
        kind: Kind::Measured,
        source: system.source(),
    }
}

fn values(figures: &[Derived]) -> BTreeMap<CostKey, f64> {
    figures
        .iter()
        .map(|figure| (figure.key, figure.value))
        .collect()
}

fn assumed(figures: Vec<Derived>, kernel: &str) -> Vec<Derived> {
    let assume = |figure: Derived| Derived {
        low: figure.value * (1.0 - ASSUMED_SPREAD),
        high: figure.value * (1.0 + ASSUMED_SPREAD),
        kind: Kind::Assumed,
        source: format!("as on Linux {kernel}: {}", figure.source),
        ..figure
    };
    figures.into_iter().map(assume).collect()
}

/// Measured figures, and those of the others that are not among them.
fn joined(mut own: Vec<Derived>, others: Vec<Derived>) -> Vec<Derived> {
    let lacks = |other: &Derived| own.iter().all(|figure| figure.key != other.key);
    let added: Vec<_> = others.into_iter().filter(lacks).collect();
    own.extend(added);
    own
}

/// The figures of a mapping; `step` is what the kernel does for each page of a batch.
const fn map_keys(step: CostKey) -> [CostKey; 7] {
    [
        CostKey::PIN_IOCTL,
        CostKey::PIN_BATCH,
        CostKey::PIN_ENTRY,
        CostKey::PIN_ENTRY_LARGE,
        step,
        CostKey::PIN_RUN,
        CostKey::PIN_IOMMU_ENTRY,
    ]
}

const MAP_BY_FOLIO: System = System {
    ioctl: MAP,
    mechanism: Mechanism::PerFolio,
    unknown: &map_keys(CostKey::PIN_POINTER),
    rows: &MAP_ROWS,
};

const MAP_ROWS: [OfShape; 7] = [
    at_39(Folio::Pages2m),
    at_39(Folio::Entries2m),
    at_39(Folio::Shifted2m),
    at_39(Folio::Pairs2m),
    at_39(Folio::Straddle2m),
    at_39(Folio::Apart2m),
    at_39(Folio::Each2m),
];

/// The figures of an unmapping; `page` is what the kernel does for each page. The last is of folios alone.
const fn unmap_keys(page: CostKey) -> [CostKey; 7] {
    [
        CostKey::UNPIN_IOCTL,
        page,
        CostKey::UNPIN_LEVEL,
        CostKey::UNPIN_SMALL,
        CostKey::UNPIN_RUN,
        CostKey::UNPIN_IOMMU_ENTRY,
        CostKey::UNPIN_FOLIO,
    ]
}

/// The last shows what a folio more costs.
const UNMAP_ROWS: [OfShape; 7] = [
    at_39(Folio::Pages2m),
    at_48(Folio::Pages2m),
    at_39(Folio::Shifted2m),
    at_39(Folio::First2m),
    at_39(Folio::Pairs2m),
    at_39(Folio::Apart2m),
    at_39(Folio::Straddle2m),
];

const UNMAP_BY_FOLIO: System = System {
    ioctl: UNMAP,
    mechanism: Mechanism::PerFolio,
    unknown: &unmap_keys(CostKey::UNPIN_TRANSLATION),
    rows: &UNMAP_ROWS,
};

/// A page pointer and a page's check are one and the same number of times: the first is known from elsewhere.
const MAP_BY_PAGE: System = System {
    ioctl: MAP,
    mechanism: Mechanism::PerPage,
    unknown: &map_keys(CostKey::PIN_PAGE),
    rows: &MAP_ROWS,
};

/// Look-up and unpinning are steps of a page here as well; none is of a folio.
const UNMAP_BY_PAGE: System = System {
    ioctl: UNMAP,
    mechanism: Mechanism::PerPage,
    unknown: OF_PAGES.split_at(6).0,
    rows: UNMAP_ROWS.split_at(6).0,
};

const OF_PAGES: [CostKey; 7] = unmap_keys(CostKey::UNPIN_PAGE);
