//! The checks of a bill: rows with the same verdict on the same check are one line.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Check, Row, Verdict};

use crate::document::Section;
use crate::figure;
use crate::subset;
use crate::table::{Column, Table};
use crate::unique::unique;

/// The outcome of a check, as far as it matters to a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finding {
    Pass,
    /// Nothing failed, but nothing could be shown to fail either.
    Inconclusive,
    /// A negative control lost something: the check can fail.
    ControlFailed,
    /// A negative control lost nothing this time.
    ControlPassed,
    Failed,
}

impl Finding {
    fn new(row: &Row, check: &Check) -> Self {
        match (check.verdict, row.is_control_of(check)) {
            (Verdict::Pass, _) => Self::Pass,
            (Verdict::Inconclusive, false) => Self::Inconclusive,
            (Verdict::Inconclusive, true) => Self::ControlPassed,
            (Verdict::Fail, false) => Self::Failed,
            (Verdict::Fail, true) => Self::ControlFailed,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::ControlFailed => "fails, as a negative control should",
            Self::ControlPassed => "negative control that lost nothing",
            Self::Failed => "FAILED",
        }
    }
}

/// Rows that share a check and its finding.
struct Group<'a> {
    check: &'a str,
    finding: Finding,
    tried: u64,
    failed: u64,
    control_failed: Option<u64>,
    keys: Vec<&'a RowKey>,
}

/// The table of checks.
pub(super) fn section(bill: &Bill) -> Section {
    let mut table = Table::new([
        Column::left("check"),
        Column::left("verdict").wrapping(),
        Column::right("failed"),
        Column::right("tried").rank(2),
        Column::right("failed in controls").rank(1),
        Column::left("where").rank(3).wrapping(),
    ]);
    for group in groups(bill) {
        table.row([
            group.check.to_owned(),
            group.finding.text().to_owned(),
            group.failed.to_string(),
            group.tried.to_string(),
            figure::optional(group.control_failed),
            place(bill, &group),
        ]);
    }
    Section::table("Checks", table)
}

fn groups(bill: &Bill) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &bill.rows {
        for check in &row.checks {
            let finding = Finding::new(row, check);
            let same = |group: &Group<'_>| group.check == check.name && group.finding == finding;
            let index = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Group::new(check, finding));
                groups.len() - 1
            });
            groups[index].add(row, check);
        }
    }
    // Findings of one check are next to each other, checks in the order in which they first occur.
    let order: Vec<&str> = unique(groups.iter().map(|group| group.check));
    groups.sort_by_key(|group| order.iter().position(|check| *check == group.check));
    groups
}

impl<'a> Group<'a> {
    fn new(check: &'a Check, finding: Finding) -> Self {
        Self {
            check: &check.name,
            finding,
            tried: 0,
            failed: 0,
            control_failed: None,
            keys: Vec::new(),
        }
    }

    fn add(&mut self, row: &'a Row, check: &Check) {
        self.tried = self.tried.saturating_add(check.tried);
        self.failed = self.failed.saturating_add(check.failed);
        // Every row names the same controls.
        self.control_failed = self.control_failed.max(check.control_failed);
        self.keys.push(&row.key);
    }
}

/// The rows of a group, among those that have its check.
fn place(bill: &Bill, group: &Group<'_>) -> String {
    let has_check = |row: &&Row| row.checks.iter().any(|check| check.name == group.check);
    let checked = bill.rows.iter().filter(has_check).map(|row| &row.key);
    subset::named(&checked.collect::<Vec<_>>(), &group.keys)
}
