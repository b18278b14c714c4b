//! The bill: what each mechanism costs per page, item by item, with checks and exactly what was run.
//!
//! A backend fills a [`Draft`]; [`Draft::complete`] makes the [`Bill`] of it. The JSON form is `pagetoll.bill/1`; its
//! schema, `docs/bill-schema.json`, is generated from [`schema`].

mod side_by_side;

use std::collections::{BTreeMap, HashSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::kinds::{Backend, Evidence, Schema, Unit};
use crate::magnitude::Magnitude;
use crate::order::{Order, OrderForm};
use crate::provenance::{Inputs, Provenance};
use crate::route::{Route, UnknownMechanism};
use crate::row::{Check, Row, RowError, RowForm, RowKey, Verdict};

/// A bill as a backend leaves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Backend that made it.
    pub backend: Backend,
    /// The route that was billed.
    pub route: Route,
    /// Unit of all costs.
    pub unit: Unit,
    /// Kind of evidence that the figures are.
    pub evidence: Evidence,
    /// Versions of what was run, by component: `xen`, `linux`, `qemu`, `guest-ram`.
    pub stack: BTreeMap<String, String>,
    /// The order that was run, with all defaults resolved.
    pub order: Order,
    /// In the order in which they are read.
    pub rows: Vec<Row>,
    /// Caveats of these figures, in sentences.
    pub notes: Vec<String>,
    /// Images, packages and boots that the figures come from.
    pub inputs: Inputs,
}

/// The command that makes a bill: known to the command line alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Why it was run there: as ordered, or the best evidence that the machine gives.
    pub backend_reason: String,
    /// RFC 3339 time in UTC at which the run ended.
    pub when: String,
    /// The command that was given.
    pub command: String,
    /// The version of pagetoll.
    pub version: String,
}

impl Draft {
    /// The bill that this invocation makes of the draft. Intervals of measured costs get room for another load than the run's.
    ///
    /// # Panics
    /// Two rows are the same line: a mistake of the backend, which no figure may hide.
    #[must_use]
    pub fn complete(mut self, invocation: Invocation) -> Bill {
        let keys = check_keys(&self.rows);
        assert_eq!(keys, Ok(()), "a backend made two rows of one line");
        if let Some(load) = self.inputs.host_load {
            let figures = self.rows.iter_mut().filter_map(Row::figures_mut);
            figures.for_each(|figures| figures.make_room_for(load.lost()));
        }
        Bill {
            schema: Schema::V1,
            route: self.route,
            backend: self.backend,
            backend_reason: invocation.backend_reason,
            unit: self.unit,
            evidence: self.evidence,
            stack: self.stack,
            order: self.order,
            rows: self.rows,
            notes: self.notes,
            provenance: Provenance {
                when: invocation.when,
                command: invocation.command,
                pagetoll: invocation.version,
                inputs: self.inputs,
            },
        }
    }
}

/// A bill. No two rows have the same key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Bill"))]
pub struct Bill<O = Order, R = Row> {
    /// The version of this form.
    pub schema: Schema,
    /// The route that was billed.
    pub route: Route,
    /// Backend that ran the route.
    pub backend: Backend,
    /// Reason for the backend: as ordered, or the best evidence that the machine gives.
    pub backend_reason: String,
    /// Unit of all costs.
    pub unit: Unit,
    /// Kind of evidence that the figures are.
    pub evidence: Evidence,
    /// Versions of what was run, by component: `xen`, `linux`, `qemu`, `guest-ram`.
    pub stack: BTreeMap<String, String>,
    /// The order that was run, with all defaults resolved.
    pub order: O,
    /// The lines. No two have the same operation, mechanism, batch, system, kernel, folio, vcpus, readers, ring, cache and
    /// clones.
    pub rows: Vec<R>,
    /// Caveats of these figures, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Programs, files, time and command of the run.
    pub provenance: Provenance,
}

/// A bill as it is read: mechanisms are names, which mean something on the bill's route alone.
type BillForm = Bill<OrderForm, RowForm>;

impl Bill {
    /// The `kvm` of a stack whose KVM runs guests without hardware virtualisation.
    pub const SHADOW_PAGING: &str = "shadow paging";

    /// True where the guests of this bill ran in ring 0 by emulation, instruction by instruction.
    #[must_use]
    pub fn emulates_ring_0(&self) -> bool {
        self.stack
            .get("kvm")
            .is_some_and(|kvm| kvm == Self::SHADOW_PAGING)
    }

    /// The row of that key.
    #[must_use]
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == *key)
    }

    /// The checks with this verdict, without those that a negative control exists to fail.
    pub fn checks_with(&self, verdict: Verdict) -> impl Iterator<Item = (&Row, &Check)> {
        self.rows.iter().flat_map(move |row| {
            let checks = row.own_checks().map(move |check| (row, check));
            checks.filter(move |(_, check)| check.verdict == verdict)
        })
    }
}

/// Error of a bill that was read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BillError {
    /// Its order names no mechanism of its route.
    #[error("order: {0}")]
    Order(#[from] UnknownMechanism),
    /// A row is malformed.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A figure that nothing costs.
    #[error(
        "{field} is {given}; expected 0, or a magnitude of {}",
        Magnitude::OF_BILLS
    )]
    Figure {
        /// Path of the JSON field, such as `rows[0].tolls[1].cost_each`.
        field: String,
        /// Value of the JSON field.
        given: String,
    },
}

impl<'de> Deserialize<'de> for Bill {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut form = BillForm::deserialize(deserializer)?;
        form.check_figures().map_err(D::Error::custom)?;
        form.into_bill().map_err(D::Error::custom)
    }
}

impl BillForm {
    /// Refuses figures of which sums or ratios would not be finite. All of them, also those of fields to come: hence as JSON,
    /// one row at a time, because a tree of all would take more memory than the bill.
    fn check_figures(&mut self) -> Result<(), BillError> {
        let rows = std::mem::take(&mut self.rows);
        check_figures("", self)?;
        for (index, row) in rows.iter().enumerate() {
            check_figures(&format!("rows[{index}]"), row)?;
        }
        self.rows = rows;
        Ok(())
    }

    fn into_bill(self) -> Result<Bill, BillError> {
        let form = self;
        let route = form.route;
        let rows = form.rows.into_iter().map(|row| row.into_row(route));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        check_keys(&rows)?;
        Ok(Bill {
            schema: form.schema,
            route,
            backend: form.backend,
            backend_reason: form.backend_reason,
            unit: form.unit,
            evidence: form.evidence,
            stack: form.stack,
            order: form.order.into_order(route)?,
            rows,
            notes: form.notes,
            provenance: form.provenance,
        })
    }
}

fn check_figures(part: &str, value: &impl Serialize) -> Result<(), BillError> {
    let json = serde_json::to_value(value).unwrap_or_default();
    match Magnitude::OF_BILLS.refuses(&json) {
        Some((field, figure)) => Err(BillError::Figure {
            field: format!("{part}{field}").trim_start_matches('.').to_owned(),
            given: format!("{figure:e}"),
        }),
        None => Ok(()),
    }
}

/// Refuses two rows that are the same line.
fn check_keys(rows: &[Row]) -> Result<(), RowError> {
    let mut seen = HashSet::new();
    match rows.iter().find(|row| !seen.insert(&row.key)) {
        Some(row) => Err(RowError::Twice(row.key.to_string())),
        None => Ok(()),
    }
}

/// The JSON schema of a bill, generated from the types.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(BillForm).to_value()
}

#[cfg(test)]
#[path = "bill/tests.rs"]
mod tests;
