//! docs/bill.svg shows the figures of docs/bill.json.

use std::fs;

use libtest_mimic::Failed;
use serde_json::Value;

use super::page::root;

/// Pixels for an instruction.
const SCALE: f64 = 0.25;

pub(crate) fn shows_the_bill() -> Result<(), Failed> {
    let svg = fs::read_to_string(root().join("docs/bill.svg"))?;
    let bill: Value = serde_json::from_str(&fs::read_to_string(root().join("docs/bill.json"))?)?;
    let rows = bill["rows"].as_array().ok_or("a bill without rows")?;
    let shown = rows
        .iter()
        .filter(|row| row["operation"] == "clear" && is_shown(row));
    let mut parts = svg.lines().filter(|line| line.contains("height=\"22\""));
    for row in shown {
        for toll in tolls(row) {
            let part = parts.next().ok_or("fewer parts than tolls")?;
            let expected = [
                format!("class=\"{}\"", toll.name),
                format!("width=\"{:.1}\"", toll.cost * SCALE),
            ];
            if !expected.iter().all(|text| part.contains(text)) {
                return Err(
                    format!("{}: expected {expected:?} in {part}", row["mechanism"]).into(),
                );
            }
        }
        let label = format!(
            ">{:.1}, ",
            row["cost_per_page"].as_f64().unwrap_or_default()
        );
        if !svg.contains(&label) {
            return Err(format!("{}: no label {label}", row["mechanism"]).into());
        }
    }
    match parts.next() {
        None => Ok(()),
        Some(part) => Err(format!("a part of no toll: {part}").into()),
    }
}

/// Batches of 32, and what takes one page at a time.
fn is_shown(row: &Value) -> bool {
    row["batch"] == 32
        || ["emulate", "set-pte", "update-va"]
            .iter()
            .any(|name| row["mechanism"] == *name)
}

struct Shown {
    name: String,
    cost: f64,
}

/// As the bars show them: from the guest into Xen.
fn tolls(row: &Value) -> Vec<Shown> {
    const ORDER: [&str; 6] = [
        "read-entry",
        "trap-and-emulate",
        "hypercall-entry",
        "per-call",
        "update",
        "per-entry",
    ];
    let tolls = row["tolls"].as_array().into_iter().flatten();
    let named = |name: &str| {
        let toll = tolls.clone().find(|toll| toll["name"] == name)?;
        let cost = toll["count_per_page"].as_f64()? * toll["cost_each"].as_f64()?;
        Some(Shown {
            name: name.to_owned(),
            cost,
        })
    };
    ORDER.into_iter().filter_map(named).collect()
}
