//! The last step of a bill, fresh or saved: it is printed, and its checks are told.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use pagetoll_bill::{Bill, Check, Row, Verdict};

use crate::args::Format;
use crate::checks::is_of_control;
use crate::failure::{self, Outcome};
use crate::output;
use crate::render;

/// Prints the bill, then says on stderr which checks failed or prove nothing.
pub(crate) fn deliver(bill: &Bill, format: Format, file: Option<&Path>) -> Result<Outcome> {
    output::write(&render::bill(bill, format)?, file)?;
    for (check, rows) in inconclusive(bill) {
        failure::note(&format!(
            "{check} is inconclusive, not passed: {}",
            rows.join(", ")
        ));
    }
    let failures = failures(bill);
    for text in &failures {
        failure::failed_check(text);
    }
    Ok(match failures.as_slice() {
        [] => Outcome::Success,
        _ => Outcome::CheckFailed,
    })
}

fn row_name(row: &Row) -> String {
    format!(
        "{} by {} at batch {}",
        row.operation, row.mechanism, row.batch
    )
}

/// The checks with this verdict that count, each with its row.
fn found(bill: &Bill, verdict: Verdict) -> impl Iterator<Item = (&Row, &Check)> {
    let all = bill
        .rows
        .iter()
        .flat_map(|row| row.checks.iter().map(move |check| (row, check)));
    all.filter(move |(row, check)| check.verdict == verdict && !is_of_control(bill, row, check))
}

/// Each check that failed and must not, with its row.
fn failures(bill: &Bill) -> Vec<String> {
    let told = |(row, check): (&Row, &Check)| {
        let (row, name) = (row_name(row), &check.name);
        format!("{row}: {name}: {} of {}", check.failed, check.tried)
    };
    found(bill, Verdict::Fail).map(told).collect()
}

/// The rows of each check that proves nothing.
fn inconclusive(bill: &Bill) -> BTreeMap<&str, Vec<String>> {
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (row, check) in found(bill, Verdict::Inconclusive) {
        rows.entry(&check.name).or_default().push(row_name(row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_what_the_bill_says_failed() {
        let sample = include_bytes!("../../tests/data/sample-bill.json");
        let bill: Bill = serde_json::from_slice(sample).unwrap();
        assert_eq!(bill.failures().count(), 1);
        let expected = ["clear by preserve-ad at batch 512: pte-none: 3 of 76416"];
        assert_eq!(failures(&bill), expected);
        let rows = inconclusive(&bill);
        assert_eq!(rows["smp-lost-dirty"], ["clear by preserve-ad at batch 1"]);
    }
}
