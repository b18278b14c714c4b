//! What a reader of a page wants to know first: whether all is well, what is gained, what costs most, what is safe and how that
//! is known, and how to repeat it. Says no more than the rows do.

use pagetoll_bill::{Bill, Check, Role, Row, Verdict};

use super::{gain, limits, mechanism_rows, reference, safety, unit};
use crate::document::{Fact, Section};
use crate::figure;

pub(super) fn section(bill: &Bill, verdict: String) -> Section {
    let rows: Vec<&Row> = mechanism_rows(bill).collect();
    let mut facts = vec![Fact::new("verdict", verdict)];
    facts.extend(best(bill, &rows).map(|text| Fact::new("gain", text)));
    facts.extend(largest(bill, &rows).map(|text| Fact::new("largest toll", text)));
    facts.extend(safe(&rows).map(|text| Fact::new("safe", text)));
    facts.push(Fact::new("to repeat it", bill.provenance.command.clone()));
    Section::facts("", facts)
}

/// Of all rows. A control that fails proves that its check can, and is not counted.
pub(super) fn verdict(bill: &Bill) -> String {
    let count = |verdict| bill.checks_with(verdict).count();
    let failed: Vec<_> = bill
        .checks_with(Verdict::Fail)
        .map(|(row, check)| format!("{} of {}", check.name, row.key))
        .collect();
    let (passed, inconclusive) = (count(Verdict::Pass), count(Verdict::Inconclusive));
    match (passed + failed.len() + inconclusive, failed.as_slice()) {
        (0, _) => "nothing was checked".to_owned(),
        (_, [_, ..]) => format!("FAILED: {}", failed.join(", ")),
        (all, []) if inconclusive == 0 => format!("all {all} checks pass"),
        (all, []) => format!("{passed} of {all} checks pass, {inconclusive} are inconclusive"),
    }
}

/// The cheapest of what the fix does, and what it replaces.
fn best(bill: &Bill, rows: &[&Row]) -> Option<String> {
    let after = rows.iter().filter(|row| row.role() == Role::After);
    let costs = after.filter_map(|row| Some((row, row.cost()?, reference(rows, row)?)));
    let (row, cost, before) = costs.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "{}: {} instead of {} {} of {}, {}",
        of(row),
        figure::cost(cost),
        figure::cost(before.cost()?),
        unit(bill),
        before.key.method,
        gain(rows, row)
    ))
}

fn of(row: &Row) -> String {
    match row.key.batch {
        1 => row.key.method.to_string(),
        batch => format!("{} at batch {batch}", row.key.method),
    }
}

/// Of what is to be replaced; else of the dearest row.
fn largest(bill: &Bill, rows: &[&Row]) -> Option<String> {
    let dearest = |role: Option<Role>| {
        let of_role = rows
            .iter()
            .filter(|row| role.is_none_or(|role| row.role() == role));
        let costs = of_role.filter_map(|row| Some((row, row.cost()?)));
        costs.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (row, cost) = dearest(Some(Role::Before)).or_else(|| dearest(None))?;
    let toll = limits::largest(row)?;
    Some(format!(
        "{} of {}: {} {}, {} of its cost",
        toll.name,
        of(row),
        figure::cost(toll.cost_per_page()),
        unit(bill),
        figure::share(toll.cost_per_page(), cost)
    ))
}

/// What two vCPUs at once did to what the fix does, and to the controls.
fn safe(rows: &[&Row]) -> Option<String> {
    let raced = |row: &&&Row| row.checks.iter().any(Check::is_race);
    let after = rows
        .iter()
        .filter(|row| row.role() == Role::After)
        .find(raced)?;
    let races = after.checks.iter().filter(|check| check.is_race());
    let counts = races.map(|check| {
        let control = check.control_failed.map_or_else(
            || "no control".to_owned(),
            |failed| format!("{failed} in the negative control"),
        );
        format!(
            "{}: {} of {} lost, {control}",
            check.name, check.failed, check.tried
        )
    });
    let counts: Vec<_> = counts.collect();
    Some(format!(
        "{}: {} on SMP ({})",
        after.key.method,
        safety::verdict(after),
        counts.join("; ")
    ))
}
