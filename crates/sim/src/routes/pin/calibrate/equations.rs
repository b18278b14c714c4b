//! Linear equations between what the model counts and what the lab counted.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use pagetoll_bill::route::Pin;
use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::Iommu;
use pagetoll_bill::{Bill, Row};
use pagetoll_cost::CostKey;

use super::super::shape::{Extent, Shape, run};
use super::super::tariff::Ioctl;
use super::{Unsolved, lab_bills};
use crate::routes::price::per_item;
use pagetoll_host_models::vfio::{Mechanism, Tolls};

/// Largest difference between two counted bills of one order whose guest programs were built apart: 0.1 %.
const SPREAD: f64 = 0.001;

/// A system of equations, with as many rows as figures.
pub(crate) struct System {
    pub(crate) ioctl: Ioctl,
    /// The kernel's mechanism.
    pub(crate) mechanism: Mechanism,
    pub(crate) unknown: &'static [CostKey],
    pub(crate) rows: &'static [OfShape],
}

/// A row of the lab's bills: mapping or unmapping a shape in an IOMMU.
#[derive(Clone, Copy)]
pub(crate) struct OfShape {
    folio: Folio,
    iommu: Iommu,
}

pub(crate) const fn at_39(folio: Folio) -> OfShape {
    OfShape {
        folio,
        iommu: Iommu::VtD,
    }
}

pub(crate) const fn at_48(folio: Folio) -> OfShape {
    OfShape {
        folio,
        iommu: Iommu::VtD48,
    }
}

/// The bills of the lab, and the kernel whose rows are read.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'a> {
    pub(crate) bills: &'a [Bill],
    pub(crate) kernel: &'a str,
}

impl<'a> Counted<'a> {
    fn row(self, ioctl: Ioctl, of: OfShape) -> Option<&'a Row> {
        let in_it = |bill: &&Bill| {
            let iommu = bill.stack.get("iommu");
            iommu.is_some_and(|iommu| iommu == of.iommu.described())
        };
        let rows = lab_bills(self.bills)
            .filter(in_it)
            .flat_map(|bill| &bill.rows);
        let mut of_shape = rows.filter(|row| {
            row.key.operation == ioctl.operation
                && row.key.method == Pin::Kernel.into()
                && row.key.kernel.as_deref() == Some(self.kernel)
                && row.key.folio == Some(of.folio)
        });
        of_shape.next()
    }
}

/// A figure that the equations give.
pub(crate) struct Solution {
    pub(crate) key: CostKey,
    /// Instructions.
    pub(crate) value: f64,
    /// Spread of the figure from [`SPREAD`] of each row, added as squares.
    pub(crate) spread: f64,
}

/// Count of the lab for a row, and the number of times that the model takes each step.
struct Equation {
    cost: f64,
    counts: Tolls,
}

impl System {
    /// Solves it for a kernel. Figures that are neither known nor unknown must not occur.
    pub(crate) fn solve(
        &self,
        counted: Counted<'_>,
        known: &BTreeMap<CostKey, f64>,
    ) -> Result<Vec<Solution>, Unsolved> {
        let equations = self.rows.iter().map(|of| self.equation(counted, *of));
        let equations: Vec<_> = equations.collect::<Result<_, _>>()?;
        // Each row is divided by its cost, so that all weigh the same.
        let matrix = DMatrix::from_fn(self.rows.len(), self.unknown.len(), |row, column| {
            let Equation { cost, counts } = &equations[row];
            self.count(self.unknown[column], counts) / cost
        });
        let rest = |Equation { cost, counts }: &Equation| {
            let is_known = |(key, _): &(&CostKey, &f64)| !self.unknown.contains(key);
            let known = known.iter().filter(is_known);
            let explained: f64 = known
                .map(|(key, value)| self.count(*key, counts) * value)
                .sum();
            (cost - explained) / cost
        };
        let costs = DVector::from_iterator(self.rows.len(), equations.iter().map(rest));
        let inverse = matrix.try_inverse().ok_or_else(|| Unsolved::Singular {
            operation: self.ioctl.operation,
            kernel: counted.kernel.to_owned(),
        })?;
        let values = &inverse * costs;
        let solved = |(index, key): (usize, &CostKey)| Solution {
            key: *key,
            value: values[index],
            spread: inverse.row(index).norm() * SPREAD,
        };
        Ok(self.unknown.iter().enumerate().map(solved).collect())
    }

    /// Number of times that a step occurs in all of a row's pages.
    fn count(&self, key: CostKey, counts: &Tolls) -> f64 {
        let items = self.ioctl.tariff.iter();
        let of_key = items.filter(|item| item.key == key);
        of_key.map(|item| per_item((item.count)(counts), 1)).sum()
    }

    fn equation(&self, counted: Counted<'_>, of: OfShape) -> Result<Equation, Unsolved> {
        let found = counted.row(self.ioctl, of);
        let equation = found.and_then(|row| self.equation_of(row, of));
        equation.ok_or_else(|| Unsolved::Row {
            operation: self.ioctl.operation,
            shape: of.folio,
            kernel: counted.kernel.to_owned(),
            iommu: of.iommu,
        })
    }

    fn equation_of(&self, row: &Row, of: OfShape) -> Option<Equation> {
        let extent = Extent {
            pages: row.pages.get(),
            runs: Some(row.layout?.runs),
            levels: levels(of.iommu),
        };
        let ran = run(self.mechanism, Shape::named(of.folio)?, extent);
        Some(Equation {
            cost: row.cost()? * per_item(ran.pages, 1),
            counts: (self.ioctl.tolls)(&ran),
        })
    }

    /// Source of its figures.
    pub(crate) fn source(&self) -> String {
        let name = |of: &OfShape| match of.iommu {
            Iommu::VtD => of.folio.to_string(),
            other @ (Iommu::VtD48 | Iommu::AmdVi | Iommu::SmmuV3) => {
                format!("{} on {other}", of.folio)
            }
        };
        let rows: Vec<_> = self.rows.iter().map(name).collect();
        format!(
            "{} of {}, by how often the model takes each step",
            self.ioctl.operation,
            rows.join(", ")
        )
    }
}

/// Tables down to an entry of 4 KiB, for the addresses that are mapped here: VT-d, nine bits each above the twelve of a
/// page (`agaw_to_level`, rounded up); AMD's grow with the addresses, from three (`PAGE_MODE_3_LEVEL`);
/// QEMU's SMMUv3 has addresses of 44 bits.
const fn levels(iommu: Iommu) -> u64 {
    match iommu {
        Iommu::VtD | Iommu::AmdVi => 3,
        Iommu::VtD48 | Iommu::SmmuV3 => 4,
    }
}
