//! The last step of a bill, fresh or saved: it is printed, and its checks are reported.

use std::collections::BTreeMap;

use anyhow::Result;
use pagetoll_bill::{Bill, Check, Row, Verdict};

use crate::failure::{self, Outcome};
use crate::output::Destination;

/// Prints the bill, then says on stderr which checks failed or prove nothing.
pub(crate) fn deliver(bill: &Bill, destination: &Destination) -> Result<Outcome> {
    let text = pagetoll_render::bill(bill, destination.format, destination.width())?;
    destination.write(&text)?;
    if let Some(file) = &destination.file {
        failure::note(&format!("{}; wrote {}", summary(bill), file.display()));
    }
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

/// How much of the bill has figures.
fn summary(bill: &Bill) -> String {
    let rows = match bill.rows.len() {
        1 => "1 row".to_owned(),
        rows => format!("{rows} rows"),
    };
    let without = bill.rows.iter().filter(|row| row.result.is_err()).count();
    match without {
        0 => rows,
        _ => format!("{rows}, {without} of them without figures"),
    }
}

/// Each check that failed and must not, with its row.
fn failures(bill: &Bill) -> Vec<String> {
    let failed = bill.checks_with(Verdict::Fail);
    let named = failed.map(
        |(
            Row { key, .. },
            Check {
                name,
                failed,
                tried,
                ..
            },
        )| { format!("{key}: {name}: {failed} of {tried}") },
    );
    named.collect()
}

/// The rows of each check that proves nothing.
fn inconclusive(bill: &Bill) -> BTreeMap<&str, Vec<String>> {
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (row, check) in bill.checks_with(Verdict::Inconclusive) {
        rows.entry(&check.name)
            .or_default()
            .push(row.key.to_string());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample_bill;

    #[test]
    fn failed_and_inconclusive_checks_are_named_with_their_rows() {
        let bill = sample_bill();
        let expected = ["clear preserve-ad, batch 512, xen-pv-dom0: pte-none: 3 of 76416"];
        assert_eq!(failures(&bill), expected);
        let rows = inconclusive(&bill);
        assert_eq!(rows["smp-lost-dirty"], ["clear preserve-ad, xen-pv-dom0"]);
    }
}
