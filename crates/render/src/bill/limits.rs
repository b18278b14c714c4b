//! Limits of a guest that pages in, and the gain of the fix. Says no more than the rows do.

use std::collections::BTreeSet;

use pagetoll_bill::{Bill, Mechanism, Method, Role, Row, Toll};

use super::{gain, in_order, is_own, reference};
use crate::document::Section;
use crate::figure;

/// One sentence for each number of vCPUs.
pub(super) fn section(bill: &Bill) -> Section {
    let rows: Vec<&Row> = bill.rows.iter().filter(|row| is_own(row)).collect();
    let is_reference = |row: &&Row| {
        let reference = reference(&rows, row);
        reference.is_some_and(|reference| reference.key == row.key)
    };
    let references = rows.iter().copied().filter(is_reference);
    let sentences = references.filter_map(|row| sentence(&rows, row));
    let crowded = in_order(rows.iter().filter_map(|row| crowded(row)));
    let title = "What limits, and what the fix gives";
    Section::list(title, sentences.chain(crowded).collect())
}

/// `8 vCPUs, 8 readers: the largest toll of uffd is lock fd_wqh, 79.6 % of a page's cost; gain of exit-on-missing 3.86x
/// (not in released kernels), exit 2.10x; at batch 16: uffd 10.28x, exit-on-missing 12.88x, exit 11.02x`.
fn sentence(rows: &[&Row], row: &Row) -> Option<String> {
    let (vcpus, cost) = (row.key.vcpus?, row.cost()?);
    let largest = largest(row)?;
    let share = figure::share(largest.cost_per_page(), cost);
    let plural = |count: u32, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let readers = row.key.readers.map(|readers| plural(readers, "reader"));
    let threads: Vec<_> = [Some(plural(vcpus, "vCPU")), readers]
        .into_iter()
        .flatten()
        .collect();
    let limit = format!(
        "{}: the largest toll of {} is {}, {share} of a page's cost",
        threads.join(", "),
        row.key.method,
        largest.name
    );
    let gain = |other: &Row| format!("{} {}", other.key.method, gain(rows, other));
    let by_fix = fixes(rows, row, row.key.batch).map(|fix| match is_stock(fix) {
        true => gain(fix),
        false => format!("{} (not in released kernels)", gain(fix)),
    });
    let by_fix: Vec<_> = by_fix.collect();
    let fix = (!by_fix.is_empty()).then(|| format!("gain of {}", by_fix.join(", ")));
    let most = rows
        .iter()
        .filter(|other| other.key.does_the_work_of(&row.key));
    let most = most.map(|other| other.key.batch).max()?;
    let before = best(rows, row, most, |other| other.role() == Role::Before);
    let batched = before.into_iter().chain(fixes(rows, row, most));
    let batched: Vec<_> = batched.map(gain).collect();
    let batched = (most > row.key.batch && !batched.is_empty())
        .then(|| format!("at batch {most}: {}", batched.join(", ")));
    let parts = [Some(limit), fix, batched].into_iter().flatten();
    Some(parts.collect::<Vec<_>>().join("; "))
}

pub(super) fn largest(row: &Row) -> Option<&Toll> {
    let tolls = row.tolls().iter();
    tolls.max_by(|a, b| a.cost_per_page().total_cmp(&b.cost_per_page()))
}

/// The fix that costs least, and, where released kernels lack it, the one that they have.
fn fixes<'a>(rows: &[&'a Row], row: &Row, batch: u32) -> impl Iterator<Item = &'a Row> + use<'a> {
    let is_after = |other: &Row| other.role() == Role::After;
    let fix = best(rows, row, batch, is_after);
    let stock = best(rows, row, batch, |other| is_after(other) && is_stock(other));
    let stock = stock.filter(|stock| fix.is_some_and(|fix| fix.key != stock.key));
    fix.into_iter().chain(stock)
}

/// Whether released kernels have what the row's mechanism needs.
fn is_stock(row: &Row) -> bool {
    let Method::Mechanism(Mechanism::Demand(mechanism)) = row.key.method else {
        return true;
    };
    mechanism.is_stock()
}

/// The row that costs least in the setting of `row` at a batch, of those wanted.
fn best<'a>(
    rows: &[&'a Row],
    row: &Row,
    batch: u32,
    is_wanted: impl Fn(&Row) -> bool,
) -> Option<&'a Row> {
    let cost = |row: &Row| row.cost().unwrap_or(f64::INFINITY);
    let at_batch = rows.iter().copied().filter(|other| {
        is_wanted(other) && other.key.batch == batch && other.key.does_the_work_of(&row.key)
    });
    let billed = at_batch.filter(|other| other.cost().is_some());
    billed.min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// `8 vCPUs on 2 CPUs` where that is so.
fn crowded(row: &Row) -> Option<String> {
    let vcpus = row.key.vcpus?;
    let cpus = u32::try_from(cpus(row.placement.as_deref()?).len()).ok()?;
    let noun = if cpus == 1 { "CPU" } else { "CPUs" };
    (0 < cpus && cpus < vcpus)
        .then(|| format!("{vcpus} vCPUs on {cpus} {noun}: they wait for one another"))
}

/// The CPUs of `vCPUs on CPU 0 1, readers on CPU 1`, the vCPUs' alone; none where they are not pinned.
fn cpus(placement: &str) -> BTreeSet<u32> {
    let vcpus = placement.split(',').next().unwrap_or_default();
    let listed = vcpus.strip_prefix("vCPUs on CPU ").unwrap_or_default();
    listed
        .split(' ')
        .filter_map(|cpu| cpu.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cpus_of_vcpus_count() {
        let count = |placement| cpus(placement).len();
        assert_eq!(count("vCPUs on CPU 0 1 0 1, readers on CPU 2"), 2);
        assert_eq!(count("vCPUs unpinned, readers on CPU 1"), 0);
    }
}
