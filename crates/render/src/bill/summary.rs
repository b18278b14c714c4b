//! Answers to a reader's first questions: whether all is well, what is gained, what costs most, what is safe and by which
//! control that is known, and how to repeat it. Says no more than the rows do.

use pagetoll_bill::{Bill, Check, Role, Row, Verdict};

use super::gain::{self, Gains};
use super::{dirty, kernels, limits, rows, safety};
use crate::document::{Fact, Section};
use crate::figure;
use crate::unique::unique;

pub(super) fn section(bill: &Bill, verdict: String) -> Section {
    let gains = Gains::new(bill, rows::mechanisms(bill));
    let mut facts: Vec<Fact> = dirty::loss(bill).into_iter().collect();
    facts.push(Fact::new("verdict", verdict));
    if !rows::has_own_tables(bill) {
        facts.extend(gains_of_settings(bill, &gains));
    }
    let answers = [
        ("largest change", kernels::largest_change(bill)),
        ("largest toll", largest(bill, &gains)),
        ("safe", safe(&gains.rows)),
        ("to repeat it", Some(bill.provenance.command.clone())),
    ];
    let answers = answers
        .into_iter()
        .filter_map(|(name, value)| Some(Fact::new(name, value?)));
    facts.extend(answers);
    Section::facts("", facts)
}

/// The checks of all rows, each once, as the table of checks names them. A control that fails proves that its check can, and
/// is not counted.
pub(super) fn verdict(bill: &Bill) -> String {
    let names = |verdict| {
        let checks = bill.checks_with(verdict);
        unique(checks.map(|(_, check)| check.name.as_str()))
    };
    let (passed, inconclusive) = (names(Verdict::Pass), names(Verdict::Inconclusive));
    let failed = bill.checks_with(Verdict::Fail);
    let failed: Vec<_> = failed
        .map(|(row, check)| format!("{} of {}", check.name, row.key))
        .collect();
    let all = unique(passed.iter().chain(&inconclusive)).len();
    match (all, failed.as_slice(), inconclusive.as_slice()) {
        (_, [_, ..], _) => format!("FAILED: {}", failed.join(", ")),
        (0, ..) => "nothing was checked".to_owned(),
        (1, _, []) => format!("the check passes: {}", passed.join(", ")),
        (all, _, []) => format!("all {all} checks pass"),
        (all, _, doubtful) => format!(
            "{} of {all} checks pass, inconclusive: {}",
            all - doubtful.len(),
            doubtful.join(", ")
        ),
    }
}

/// The gains at equal batch, and those of batches apart; of several settings, such as numbers of vCPUs, in the first and in
/// the last.
fn gains_of_settings(bill: &Bill, gains: &Gains<'_>) -> Vec<Fact> {
    let settings = gains.settings();
    let ends = match settings.as_slice() {
        [first, .., last] => vec![*first, *last],
        few => few.to_vec(),
    };
    let mut facts = Vec::new();
    let is_at_equal_batch = gains.has_batches() || rows::has_rates(bill);
    if !is_at_equal_batch {
        facts.extend(cheapest(bill, gains).map(|text| Fact::new("gain", text)));
    }
    for reference in ends {
        let with = with(reference);
        let over = limits::over(gains, reference).filter(|_| is_at_equal_batch);
        facts.extend(over.map(|over| Fact::new(format!("gain{with}"), over)));
        let batch = limits::batch(gains, reference);
        facts.extend(
            batch.map(|(batch, text)| Fact::new(format!("gain of batch {batch}{with}"), text)),
        );
    }
    let doubt = gains.doubt().filter(|_| !facts.is_empty());
    facts.extend(doubt.map(|doubt| Fact::new("these gains", doubt)));
    facts
}

/// The cheapest row of what the fix does, and the row that it replaces, which takes one page at a time.
fn cheapest(bill: &Bill, gains: &Gains<'_>) -> Option<String> {
    let after = gains.rows.iter().filter(|row| row.role() == Role::After);
    let costs = after.filter_map(|row| Some((row, row.cost()?, gains.reference(row)?)));
    let (row, cost, before) = costs.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let at_once = gains.rows.iter().find(|other| {
        other.key == row.key.clone().at_batch(before.key.batch) && other.key != row.key
    });
    let at_once = at_once.map(|other| {
        let gain = gain::text(gains.over_reference(other));
        format!("; {gain} at batch {}", other.key.batch)
    });
    Some(format!(
        "{}: {} instead of {} {} of {}, {}{}",
        place(row),
        figure::cost(cost),
        figure::cost(before.cost()?),
        rows::unit(bill),
        before.key.method,
        gain::text(gains.over_reference(row)),
        at_once.unwrap_or_default()
    ))
}

/// `preserve-ad at batch 32`, and the row's setting.
fn place(row: &Row) -> String {
    let batch = match row.key.batch {
        1 => String::new(),
        batch => format!(" at batch {batch}"),
    };
    format!("{}{batch}{}", row.key.method, with(row))
}

/// ` with 8 vCPUs, 1 reader`, ` on fix:none`.
fn with(row: &Row) -> String {
    let vcpus = row.key.vcpus.map(limits::vcpus);
    let vcpus = vcpus.map(|vcpus| format!(" with {vcpus}{}", limits::readers(row)));
    let kernel = row.key.kernel.as_deref();
    let kernel = kernel.map(|kernel| format!(" on {kernel}"));
    vcpus.into_iter().chain(kernel).collect()
}

/// The largest toll of what is to be replaced, or else of the most expensive row, each by the best number of readers.
fn largest(bill: &Bill, gains: &Gains<'_>) -> Option<String> {
    let dearest = |role: Option<Role>| {
        let rows = gains.rows.iter();
        let of_role = rows.filter(|row| {
            role.is_none_or(|role| row.role() == role) && gains.has_best_readers(row)
        });
        let costs = of_role.filter_map(|row| Some((row, row.cost()?)));
        costs.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (row, cost) = dearest(Some(Role::Before)).or_else(|| dearest(None))?;
    let toll = limits::largest(row)?;
    Some(format!(
        "{} of {}: {} {}, {} of its cost",
        toll.name,
        place(row),
        figure::cost(toll.cost_per_page()),
        rows::unit(bill),
        figure::share(toll.cost_per_page(), cost)
    ))
}

/// The races of what the fix does against two vCPUs, and those of the controls.
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
