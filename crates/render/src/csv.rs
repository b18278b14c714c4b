//! The rows of a bill as CSV: a line for each row, a column for each scalar of the row's JSON, named by its path.
//!
//! Columns, in this order: [`COLUMNS`], whether a row has them or not; scalars that only some bills have; and, for every
//! name that occurs in the bill in the order of its first occurrence, `stack.NAME`, `folios.SIZE`, `crossings.NAME`,
//! `tolls.NAME` with [`TOLL`], `checks.NAME` with [`CHECK`]. `runs` are separated by semicolons. What a row does not have
//! is empty. Profiles, notes and provenance are in the other formats.
//!
//! A cell that a spreadsheet would take for a formula begins with an apostrophe.

use std::collections::{HashMap, HashSet};

use pagetoll_bill::{Bill, Row};
use serde_json::Value;

use crate::{RenderError, harmless};

/// The columns of every bill: four of the bill itself, then the row's.
const COLUMNS: [&str; 35] = [
    "route",
    "backend",
    "unit",
    "evidence",
    "operation",
    "mechanism",
    "role",
    "batch",
    "system",
    "kernel",
    "folio",
    "vcpus",
    "readers",
    "ring",
    "cache",
    "clones",
    "backing",
    "pages",
    "layout.runs",
    "layout.folios",
    "layout.largest_folio",
    "placement",
    "cost_per_page",
    "stddev",
    "interval.low",
    "interval.high",
    "runs",
    "pages_per_second",
    "pages_per_second_stddev",
    "published.pages_per_second",
    "published.fitted",
    "published.scalability",
    "crossings_per_page",
    "smp_safe",
    "unavailable",
];

/// Columns with names of the bill in them, by the first part of their paths.
const NAMED: [&str; 5] = ["stack", "folios", "crossings", "tolls", "checks"];
const TOLL: [&str; 2] = ["count_per_page", "cost_each"];
const CHECK: [&str; 4] = ["tried", "failed", "control_failed", "verdict"];

/// The rows as CSV, with a header line.
pub(crate) fn rows(bill: &Bill) -> Result<String, RenderError> {
    let of_bill = of_bill(bill)?;
    let rows = bill.rows.iter().map(of_row);
    let rows = rows.collect::<serde_json::Result<Vec<_>>>()?;
    let columns = columns(of_bill.iter().chain(rows.iter().flatten()));
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(Vec::new());
    writer.write_record(columns.iter().map(|path| cell(path)))?;
    for row in &rows {
        // Of several tolls of one name, the first.
        let cells = of_bill.iter().chain(row).rev();
        let cells: HashMap<&str, &Value> = cells.map(|(path, value)| (&**path, value)).collect();
        let line: Vec<_> = columns.iter().map(|path| cells.get(path)).collect();
        writer.serialize(line)?;
    }
    let text = writer.into_inner();
    let text = text.map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Values by the paths of their columns.
type Cells = Vec<(String, Value)>;

/// Each path once, in the order of [`COLUMNS`] and [`NAMED`], then in that of the first occurrence.
fn columns<'a>(cells: impl Iterator<Item = &'a (String, Value)>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let paths = COLUMNS.into_iter().chain(cells.map(|(path, _)| &**path));
    let mut columns: Vec<_> = paths.filter(|path| seen.insert(*path)).collect();
    columns.sort_by_key(|path| {
        let first = path.split('.').next();
        NAMED.iter().position(|name| Some(*name) == first)
    });
    columns
}

fn of_bill(bill: &Bill) -> serde_json::Result<Cells> {
    let mut cells = Vec::new();
    add(&mut cells, "route".to_owned(), bill.route.name().into());
    add(&mut cells, "backend".to_owned(), bill.backend.name().into());
    add(&mut cells, "unit".to_owned(), bill.unit.name().into());
    add(
        &mut cells,
        "evidence".to_owned(),
        bill.evidence.name().into(),
    );
    let stack = serde_json::to_value(&bill.stack)?;
    add(&mut cells, "stack".to_owned(), stack);
    Ok(cells)
}

fn of_row(row: &Row) -> serde_json::Result<Cells> {
    let mut cells = Vec::new();
    if let Value::Object(fields) = serde_json::to_value(row)? {
        for (path, value) in fields {
            add(&mut cells, path, value);
        }
    }
    Ok(cells)
}

/// Adds a field, or what is in it.
fn add(cells: &mut Cells, path: String, value: Value) {
    let parts: &[&str] = match path.as_str() {
        "profile" | "resident" | "rewriting" | "migrated.sent.rounds" => return,
        "tolls" => &TOLL,
        "checks" => &CHECK,
        _ => &[],
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                add(cells, format!("{path}.{name}"), value);
            }
        }
        Value::Array(items) if parts.is_empty() => {
            let runs = items.iter().filter_map(Value::as_f64);
            let runs: Vec<_> = runs.map(|run| run.to_string()).collect();
            cells.push((path, runs.join(";").into()));
        }
        Value::Array(items) => {
            for item in &items {
                let name = item["name"].as_str().unwrap_or_default();
                for part in parts {
                    add(cells, format!("{path}.{name}.{part}"), item[part].clone());
                }
            }
        }
        Value::String(text) => cells.push((path, cell(&text).into())),
        scalar => cells.push((path, scalar)),
    }
}

/// Text that neither a terminal nor a spreadsheet obeys.
fn cell(text: &str) -> String {
    let text = harmless(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of an object of the schema, or of the object that it is.
    fn has(schema: &Value, object: &Value, path: &str) -> bool {
        let (field, rest) = path.split_once('.').unwrap_or((path, ""));
        let property = &object["properties"][field];
        let inner = property["anyOf"][0]["$ref"].as_str();
        let inner = inner.and_then(|name| schema.pointer(&name[1..]));
        !property.is_null()
            && (rest.is_empty() || inner.is_some_and(|inner| has(schema, inner, rest)))
    }

    #[test]
    fn columns_are_paths_of_the_schema() {
        let schema = include_str!("../../../docs/bill-schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        for (at, path) in COLUMNS.into_iter().enumerate() {
            let object = if at < 4 {
                &schema
            } else {
                &schema["$defs"]["Row"]
            };
            assert!(has(&schema, object, path), "{path}");
        }
        for (object, parts) in [("Toll", &TOLL[..]), ("Check", &CHECK)] {
            let object = &schema["$defs"][object];
            assert!(parts.iter().all(|part| has(&schema, object, part)));
        }
    }

    #[test]
    fn a_scalar_that_is_new_comes_after_the_others_and_before_names_of_the_bill() {
        let paths = ["tolls.a.cost_each", "new", "stack.xen", "batch", "new"];
        let cells = paths.map(|path| (path.to_owned(), Value::Null));
        let columns = columns(cells.iter());
        assert_eq!(columns[..COLUMNS.len()], COLUMNS);
        let rest = ["new", "stack.xen", "tolls.a.cost_each"];
        assert_eq!(columns[COLUMNS.len()..], rest);
    }

    #[test]
    fn formulas_are_quoted_and_numbers_are_not() {
        let cells = [
            "=1+1", "+cmd|x", "-cmd", "@SUM(A1)", "-704.5", "+1e3", "6.1",
        ]
        .map(cell);
        let expected = [
            "'=1+1",
            "'+cmd|x",
            "'-cmd",
            "'@SUM(A1)",
            "-704.5",
            "+1e3",
            "6.1",
        ];
        assert_eq!(cells, expected);
        assert_eq!(cell("a\tb\u{202e}"), "a\u{fffd}b\u{fffd}");
    }
}
