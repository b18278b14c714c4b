//! The last step of a bill, fresh or saved: it is printed, and its checks are told.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use pagetoll_bill::{Bill, Check, Row, Verdict};

use crate::args::Format;
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
    let on = row
        .kernel
        .as_ref()
        .map_or(String::new(), |kernel| format!(" on {kernel}"));
    format!(
        "{} by {} at batch {}{on}",
        row.operation, row.mechanism, row.batch
    )
}

/// Each check that failed and must not, with its row.
fn failures(bill: &Bill) -> Vec<String> {
    let told = |(row, check): (&Row, &Check)| {
        let (row, name) = (row_name(row), &check.name);
        format!("{row}: {name}: {} of {}", check.failed, check.tried)
    };
    bill.checks_with(Verdict::Fail).map(told).collect()
}

/// The rows of each check that proves nothing.
fn inconclusive(bill: &Bill) -> BTreeMap<&str, Vec<String>> {
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (row, check) in bill.checks_with(Verdict::Inconclusive) {
        rows.entry(&check.name).or_default().push(row_name(row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_and_inconclusive_checks_are_named_with_their_rows() {
        let sample = include_bytes!("../../tests/data/sample-bill.json");
        let bill: Bill = serde_json::from_slice(sample).unwrap();
        let expected = ["clear by preserve-ad at batch 512: pte-none: 3 of 76416"];
        assert_eq!(failures(&bill), expected);
        let rows = inconclusive(&bill);
        assert_eq!(rows["smp-lost-dirty"], ["clear by preserve-ad at batch 1"]);
    }
}
