//! Linear equations between what the model counts and what the lab counted.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use pagetoll_bill::cost::CostKey;
use pagetoll_bill::{Bill, Row};

use super::super::shape::{Extent, Shape, travel};
use super::super::tariff::Operation;
use super::{Unsolved, of_lab};
use crate::routes::price::per_item;
use pagetoll_models::vfio::{Mechanism, Tolls};

/// What two counted bills of the same order differ by at most when guest programs were built anew: 0.1 %.
const SPREAD: f64 = 0.001;

/// As many rows as figures.
pub(crate) struct System {
    pub(crate) operation: Operation,
    /// How the kernel pins.
    pub(crate) mechanism: Mechanism,
    pub(crate) unknown: &'static [CostKey],
    /// A shape, and the width in bits of the IOMMU's addresses.
    pub(crate) rows: &'static [(&'static str, u8)],
}

/// A figure that the equations give.
pub(crate) struct Solved {
    pub(crate) key: CostKey,
    /// Instructions.
    pub(crate) value: f64,
    /// What [`SPREAD`] of each row makes of it, added as squares.
    pub(crate) spread: f64,
}

/// What the lab counted, and how often the model takes each step.
struct Equation {
    cost: f64,
    counts: Tolls,
}

impl System {
    /// Solves it for a kernel. Figures that are neither known nor unknown must not occur.
    pub(crate) fn solve(
        &self,
        (bills, kernel): (&[Bill], &str),
        known: &BTreeMap<CostKey, f64>,
    ) -> Result<Vec<Solved>, Unsolved> {
        let equations = self
            .rows
            .iter()
            .map(|of| self.equation((bills, kernel), *of));
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
            operation: self.operation.name,
            kernel: kernel.to_owned(),
        })?;
        let values = &inverse * costs;
        let solved = |(index, key): (usize, &CostKey)| Solved {
            key: *key,
            value: values[index],
            spread: inverse.row(index).norm() * SPREAD,
        };
        Ok(self.unknown.iter().enumerate().map(solved).collect())
    }

    /// How often a step occurs in all of a row's pages.
    fn count(&self, key: CostKey, counts: &Tolls) -> f64 {
        let items = self.operation.tariff.iter();
        let of_key = items.filter(|item| item.key == key);
        of_key.map(|item| per_item((item.count)(counts), 1)).sum()
    }

    fn equation(
        &self,
        (bills, kernel): (&[Bill], &str),
        (name, bits): (&'static str, u8),
    ) -> Result<Equation, Unsolved> {
        let found = self.row((bills, kernel), (name, bits));
        let travelled = found.and_then(|row| {
            let extent = Extent {
                pages: row.pages.get(),
                runs: Some(row.layout?.runs),
                levels: levels(bits),
            };
            let travelled = travel(self.mechanism, Shape::named(name)?, extent);
            Some((row.cost_per_page?, travelled))
        });
        let (cost, travelled) = travelled.ok_or_else(|| Unsolved::Row {
            operation: self.operation.name,
            shape: name,
            kernel: kernel.to_owned(),
            bits,
        })?;
        Ok(Equation {
            cost: cost * per_item(travelled.pages, 1),
            counts: (self.operation.tolls)(&travelled),
        })
    }

    fn row<'a>(
        &self,
        (bills, kernel): (&'a [Bill], &str),
        (name, bits): (&str, u8),
    ) -> Option<&'a Row> {
        let width = format!("VT-d, {bits} bits");
        let rows = of_lab(bills)
            .filter(|bill| bill.stack.get("iommu") == Some(&width))
            .flat_map(|bill| &bill.rows);
        let mut of_shape = rows.filter(|row| {
            row.operation == self.operation.name
                && row.mechanism == "kernel"
                && row.kernel.as_deref() == Some(kernel)
                && row.folio.as_deref() == Some(name)
        });
        of_shape.next()
    }

    /// Where its figures come from.
    pub(crate) fn source(&self) -> String {
        let name = |(shape, bits): &(&str, u8)| match bits {
            39 => (*shape).to_owned(),
            _ => format!("{shape} at {bits} bits"),
        };
        let rows: Vec<_> = self.rows.iter().map(name).collect();
        format!(
            "{} of {}, by how often the model takes each step",
            self.operation.name,
            rows.join(", ")
        )
    }
}

/// Tables down to an entry of 4 KiB: nine bits each above the twelve of a page (`agaw_to_level`, rounded up).
const fn levels(bits: u8) -> u64 {
    (bits as u64 - 12).div_ceil(9)
}
