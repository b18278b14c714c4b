//! What was checked: rows with the same verdict on the same check are taken together.

use std::collections::BTreeMap;

use pagetoll_bill::{Bill, Check, Row, Verdict};

use super::super::document::Section;
use super::super::figure::NONE;
use super::super::table::{Align, Table};

/// What was found, as far as it matters to a reader.
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
    /// Batches by mechanism.
    batches: BTreeMap<&'a str, Vec<u32>>,
}

/// The table of checks.
pub(super) fn section(bill: &Bill) -> Section {
    let mut table = Table::new([
        ("check", Align::Left),
        ("verdict", Align::Left),
        ("failed", Align::Right),
        ("tried", Align::Right),
        ("failed in controls", Align::Right),
        ("where", Align::Left),
    ]);
    for group in groups(bill) {
        table.row([
            group.check.to_owned(),
            group.finding.text().to_owned(),
            group.failed.to_string(),
            group.tried.to_string(),
            group
                .control_failed
                .map_or_else(|| NONE.to_owned(), |n| n.to_string()),
            where_found(bill, &group),
        ]);
    }
    Section::table("Checks", table)
}

fn groups(bill: &Bill) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let of_rows = bill
        .rows
        .iter()
        .flat_map(|row| row.checks.iter().map(move |check| (row, check)));
    for (row, check) in of_rows {
        let finding = finding(bill, row, check);
        let same = |group: &Group<'_>| group.check == check.name && group.finding == finding;
        let index = groups.iter().position(same).unwrap_or_else(|| {
            groups.push(Group::new(check, finding));
            groups.len() - 1
        });
        groups[index].add(row, check);
    }
    // Findings of one check stand together, checks in the order in which they first occur.
    let order: Vec<&str> = super::in_order(groups.iter().map(|group| group.check));
    groups.sort_by_key(|group| order.iter().position(|check| *check == group.check));
    groups
}

fn finding(bill: &Bill, row: &Row, check: &Check) -> Finding {
    match (check.verdict, bill.is_of_control(row, check)) {
        (Verdict::Pass, _) => Finding::Pass,
        (Verdict::Inconclusive, false) => Finding::Inconclusive,
        (Verdict::Inconclusive, true) => Finding::ControlPassed,
        (Verdict::Fail, false) => Finding::Failed,
        (Verdict::Fail, true) => Finding::ControlFailed,
    }
}

impl<'a> Group<'a> {
    fn new(check: &'a Check, finding: Finding) -> Self {
        Self {
            check: &check.name,
            finding,
            tried: 0,
            failed: 0,
            control_failed: None,
            batches: BTreeMap::new(),
        }
    }

    fn add(&mut self, row: &'a Row, check: &Check) {
        self.tried = self.tried.saturating_add(check.tried);
        self.failed = self.failed.saturating_add(check.failed);
        // Every row is told of the same controls.
        self.control_failed = self.control_failed.max(check.control_failed);
        self.batches
            .entry(&row.mechanism)
            .or_default()
            .push(row.batch);
    }
}

/// The rows of a group: `all N rows`, or its mechanisms, with their batches where not all of them are in the group.
fn where_found(bill: &Bill, group: &Group<'_>) -> String {
    let checked: Vec<&Row> = bill
        .rows
        .iter()
        .filter(|row| row.checks.iter().any(|check| check.name == group.check))
        .collect();
    let grouped: usize = group.batches.values().map(Vec::len).sum();
    if grouped == checked.len() {
        return format!("all {grouped} rows");
    }
    let told = group.batches.iter().map(|(mechanism, batches)| {
        let all = checked.iter().filter(|row| row.mechanism == *mechanism);
        if all.count() == batches.len() {
            return (*mechanism).to_owned();
        }
        let batches: Vec<_> = batches.iter().map(ToString::to_string).collect();
        format!("{mechanism} at {}", batches.join(" "))
    });
    told.collect::<Vec<_>>().join(", ")
}
