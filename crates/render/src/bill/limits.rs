//! The largest toll of each number of vCPUs, and the gains of what replaces it. Says no more than the rows do.

use std::collections::BTreeSet;

use pagetoll_bill::{Bill, Mechanism, Method, Role, Row, Toll};

use super::gain::Gains;
use super::rows;
use crate::document::Section;
use crate::figure;
use crate::unique::unique;

/// One sentence for each number of vCPUs.
pub(super) fn section(bill: &Bill) -> Section {
    let title = "What limits, and what the fix gives";
    if rows::has_own_tables(bill) {
        return Section::list(title, Vec::new());
    }
    let rows: Vec<&Row> = bill.rows.iter().filter(|row| rows::is_own(row)).collect();
    let crowded = unique(rows.iter().filter_map(|row| crowded(row)));
    let gains = Gains::new(bill, rows);
    let settings = gains.settings().into_iter();
    let sentences = settings.filter_map(|row| sentence(&gains, row));
    Section::list(title, sentences.chain(crowded).collect())
}

/// `8 vCPUs, 8 readers: the largest toll of uffd is lock fd_wqh, 79.6 % of a page's cost; gain over uffd: exit 3.86x; over uffd at
/// batch 16: exit 1.25x; gain of batch 16: uffd 10.28x, exit 3.34x`.
fn sentence(gains: &Gains<'_>, row: &Row) -> Option<String> {
    let (vcpus, cost) = (row.key.vcpus?, row.cost()?);
    let largest = largest(row)?;
    let share = figure::share(largest.cost_per_page(), cost);
    let limit = format!(
        "{}{}: the largest toll of {} is {}, {share} of a page's cost",
        self::vcpus(vcpus),
        readers(row),
        row.key.method,
        largest.name
    );
    let over = over(gains, row).map(|over| format!("gain {over}"));
    let batch = batch(gains, row);
    let batch = batch.map(|(batch, gains)| format!("gain of batch {batch}: {gains}"));
    let doubt = gains.doubt().filter(|_| over.is_some() || batch.is_some());
    let parts = [Some(limit), over, batch, doubt].into_iter().flatten();
    Some(parts.collect::<Vec<_>>().join("; "))
}

/// `1 vCPU`, `8 vCPUs`.
pub(super) fn vcpus(vcpus: u32) -> String {
    let noun = if vcpus == 1 { "vCPU" } else { "vCPUs" };
    format!("{vcpus} {noun}")
}

/// `, 1 reader`, `, 8 readers`; nothing where there is no userfaultfd.
pub(super) fn readers(row: &Row) -> String {
    match row.key.readers {
        None => String::new(),
        Some(1) => ", 1 reader".to_owned(),
        Some(readers) => format!(", {readers} readers"),
    }
}

/// The gains of what replaces `reference` in its setting, each at the same batch: of batches the smallest and the largest.
/// `over uffd: exit 1.81x; over uffd at batch 64: exit 1.44x`.
pub(super) fn over(gains: &Gains<'_>, reference: &Row) -> Option<String> {
    let rows = in_setting(gains, reference, &[Role::After]);
    let method = reference.key.method;
    let at = |batch: u32| {
        let at_batch = rows.iter().filter(|row| row.key.batch == batch);
        let said = at_batch.filter_map(|row| {
            let gain = gains.said(gains.over_reference(row)?);
            let kernels = if is_stock(row) {
                ""
            } else {
                " (not in released kernels)"
            };
            Some(format!("{} {gain}{kernels}", row.key.method))
        });
        let said: Vec<_> = said.collect();
        let by = rows.iter().find(|row| row.key.batch == batch);
        let by = by.and_then(|row| gains.reference(row));
        let by = by.filter(|by| by.key.readers != reference.key.readers);
        let at = match batch == reference.key.batch {
            true => String::new(),
            false => format!(" at batch {batch}{}", by.map(readers).unwrap_or_default()),
        };
        (!said.is_empty()).then(|| format!("over {method}{at}: {}", said.join(", ")))
    };
    let batches = unique(rows.iter().map(|row| row.key.batch));
    let ends = [batches.iter().min()?, batches.iter().max()?];
    let said: Vec<_> = unique(ends.into_iter())
        .into_iter()
        .copied()
        .filter_map(at)
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The largest batch, and its gain over each mechanism's smallest: `uffd 13.80x, exit 13.67x`.
pub(super) fn batch(gains: &Gains<'_>, reference: &Row) -> Option<(u32, String)> {
    let rows = in_setting(gains, reference, &[Role::Before, Role::After]);
    let largest = rows.iter().map(|row| row.key.batch).max()?;
    let at_largest = rows.iter().filter(|row| row.key.batch == largest);
    let said = at_largest.filter_map(|row| {
        let gain = gains.said(gains.batch(row)?);
        Some(format!("{} {gain}", row.key.method))
    });
    let said: Vec<_> = said.collect();
    (!said.is_empty()).then(|| (largest, said.join(", ")))
}

/// Rows of these roles in the setting of `reference`; of several numbers of readers, the one that costs least.
fn in_setting<'a>(gains: &Gains<'a>, reference: &Row, roles: &[Role]) -> Vec<&'a Row> {
    let rows = gains.rows.iter().copied().filter(|row| {
        roles.contains(&row.role())
            && row.key.does_the_work_of(&reference.key)
            && gains.has_best_readers(row)
    });
    rows.collect()
}

pub(super) fn largest(row: &Row) -> Option<&Toll> {
    let tolls = row.tolls().iter();
    tolls.max_by(|a, b| a.cost_per_page().total_cmp(&b.cost_per_page()))
}

/// True for mechanisms that released kernels have.
fn is_stock(row: &Row) -> bool {
    match row.key.method {
        Method::Mechanism(Mechanism::Demand(mechanism)) => mechanism.is_stock(),
        _ => true,
    }
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
