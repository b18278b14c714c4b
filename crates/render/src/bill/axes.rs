//! The columns that identify a row: the axes of its key.

use pagetoll_bill::Row;
use pagetoll_bill::row::RowKey;

use crate::figure::optional;
use crate::table::{Column, Table};
use crate::unique::unique;

/// Adds the mechanism, and the axes in which rows differ.
pub(super) fn label(table: &mut Table, rows: &[&Row]) {
    add_mechanisms(table, rows);
    add_others(table, rows);
}

/// Adds the mechanism and its role, and the axes in which rows differ.
pub(super) fn label_with_roles(table: &mut Table, rows: &[&Row]) {
    add_mechanisms(table, rows);
    table.each(rows, Column::left("role").rank(1), |row| {
        row.role().to_string()
    });
    add_others(table, rows);
}

fn add_mechanisms(table: &mut Table, rows: &[&Row]) {
    table.each(rows, Column::left("mechanism"), |row| {
        row.key.method.to_string()
    });
}

fn add_others(table: &mut Table, rows: &[&Row]) {
    // Rows of several vCPUs are also compared across tables.
    let across = rows.iter().any(|row| row.key.vcpus.is_some());
    let of_vcpus = if across { add } else { add_differing };
    let operation = |key: &RowKey| key.operation.to_string();
    let system = |key: &RowKey| key.system.to_string();
    let kernel = |key: &RowKey| optional(key.kernel.as_deref());
    add_differing(table, rows, Column::left("operation"), operation);
    add_differing(table, rows, Column::left("system").rank(100), system);
    add_differing(table, rows, Column::left("kernel").wrapping(), kernel);
    of_vcpus(table, rows, Column::right("vCPUs"), |key| {
        optional(key.vcpus)
    });
    of_vcpus(table, rows, Column::right("batch"), |key| {
        key.batch.to_string()
    });
    of_vcpus(table, rows, Column::right("readers").rank(0), |key| {
        optional(key.readers)
    });
    add_differing(table, rows, Column::right("ring").rank(0), |key| {
        optional(key.ring)
    });
    add_differing(table, rows, Column::right("cache"), |key| {
        optional(key.cache)
    });
    add_differing(table, rows, Column::right("clones"), |key| {
        optional(key.clones)
    });
    add_differing(table, rows, Column::left("backing"), |key| {
        optional(key.backing)
    });
}

fn add(table: &mut Table, rows: &[&Row], column: Column, value: fn(&RowKey) -> String) {
    table.each(rows, column, |row| value(&row.key));
}

fn add_differing(table: &mut Table, rows: &[&Row], column: Column, value: fn(&RowKey) -> String) {
    if unique(rows.iter().map(|row| value(&row.key))).len() > 1 {
        add(table, rows, column, value);
    }
}
