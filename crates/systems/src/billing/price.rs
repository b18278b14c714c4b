//! Attaches prices to what was counted: once for each sample of the host table.

use pagetoll_bill::host::{Host, HostError, Prices};
use pagetoll_bill::{Interval, Row, Toll};

use super::Samples;
use super::tariff::Item;
use crate::linux::Walked;

/// Makes sure that a table has all that a tariff asks for.
pub(super) fn check(tariff: &[Item], host: &Host) -> Result<(), HostError> {
    let mut keys = tariff.iter().map(|item| item.key);
    keys.try_for_each(|key| host.figure(key).map(drop))
}

/// Sets cost, interval and tolls of a row.
///
/// The row shows the sample in the middle, so that its tolls are those of one machine and sum to its cost.
pub(super) fn set(
    row: &mut Row,
    (tariff, walked): (&[Item], &Walked),
    (host, samples): (&Host, Samples),
) -> Result<(), HostError> {
    let drawn = (0..u64::from(samples.count)).map(|index| {
        let prices = samples.prices(host, index);
        tolls(tariff, walked, &prices)
    });
    let mut bills = drawn.collect::<Result<Vec<_>, _>>()?;
    bills.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let middle = &bills[(bills.len() - 1) / 2];
    row.set_runs(vec![cost(middle)]);
    row.runs.clear();
    row.tolls.clone_from(middle);
    let mut costs: Vec<_> = bills.iter().map(|bill| cost(bill)).collect();
    row.interval = Interval::of_middle(&mut costs);
    Ok(())
}

fn tolls(tariff: &[Item], walked: &Walked, prices: &Prices<'_>) -> Result<Vec<Toll>, HostError> {
    let toll = |item: &Item| {
        Ok(Toll {
            name: item.toll.to_owned(),
            count_per_page: per_item((item.count)(walked), walked),
            cost_each: prices.of(item.key)?,
        })
    };
    tariff.iter().map(toll).collect()
}

fn cost(tolls: &[Toll]) -> f64 {
    tolls.iter().map(Toll::cost_per_page).sum()
}

/// What one item costs.
pub(super) fn cost_of(
    tariff: &[Item],
    walked: &Walked,
    prices: &Prices<'_>,
) -> Result<f64, HostError> {
    Ok(cost(&tolls(tariff, walked, prices)?))
}

/// A count for each item; both are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(super) fn per_item(count: u64, walked: &Walked) -> f64 {
    count as f64 / walked.items as f64
}
