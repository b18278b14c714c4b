//! Attaches prices to what was counted: once for each sample of the host table.

use pagetoll_bill::host::{Host, HostError, Prices};
use pagetoll_bill::{Row, Toll};

use super::Samples;
use super::tariff::Item;
use crate::linux::Walked;

/// Makes sure that a table has all that a tariff asks for.
pub(super) fn check(tariff: &[Item], host: &Host) -> Result<(), HostError> {
    let mut keys = tariff.iter().map(|item| item.key);
    keys.try_for_each(|key| host.figure(key).map(drop))
}

/// Sets cost, interval and tolls of a row.
pub(super) fn set(
    row: &mut Row,
    (tariff, walked): (&[Item], &Walked),
    (host, samples): (&Host, Samples),
) -> Result<(), HostError> {
    let drawn = samples.machines(host);
    let priced = drawn.map(|prices| tolls(tariff, walked, &prices));
    row.set_samples(priced.collect::<Result<_, _>>()?);
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

/// What one item costs.
pub(super) fn cost_of(
    tariff: &[Item],
    walked: &Walked,
    prices: &Prices<'_>,
) -> Result<f64, HostError> {
    let tolls = tolls(tariff, walked, prices)?;
    Ok(tolls.iter().map(Toll::cost_per_page).sum())
}

/// A count for each item; both are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(super) fn per_item(count: u64, walked: &Walked) -> f64 {
    count as f64 / walked.items as f64
}
