//! Findings: what fails a gate, and what `--allow-missing` accepts.

use pagetoll_compare::diff::{Diff, Finding, MissingRows};

use crate::document::Section;
use crate::table::{Column, Table};

/// The findings that fail the gate.
pub(super) fn refused(diff: &Diff, missing: MissingRows) -> Section {
    let findings = diff.failures(missing);
    Section::table("What fails a gate", table(findings))
}

/// The findings that would fail it if nothing were allowed to be missing.
pub(super) fn accepted(diff: &Diff, missing: MissingRows) -> Section {
    let of_missing = diff
        .findings
        .iter()
        .filter(|finding| finding.kind.is_missing());
    let accepted = of_missing.filter(|_| missing == MissingRows::Allowed);
    Section::table("Missing, accepted by --allow-missing", table(accepted))
}

fn table<'a>(findings: impl Iterator<Item = &'a Finding>) -> Table {
    let mut table = Table::new([
        Column::left("finding"),
        Column::left("row").wrapping(),
        Column::left("what").wrapping(),
    ]);
    for finding in findings {
        table.row([
            finding.kind.to_string(),
            finding.key.to_string(),
            finding.detail.clone(),
        ]);
    }
    table
}
