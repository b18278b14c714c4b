//! Attaches prices to what was counted: once for each sample of the host table.

use pagetoll_bill::cost::{CostKey, Host, HostError, Prices};
use pagetoll_bill::{Row, Toll};

use super::Samples;
use pagetoll_models::linux::Walked;

/// One item of a tariff: a toll, the figure that it costs each time, and how often it was paid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<C = Walked> {
    /// Its name in the bill, the lab's where it means the same.
    pub(crate) toll: &'static str,
    /// The figure that it costs each time.
    pub(crate) key: CostKey,
    /// How often it was paid.
    pub(crate) count: fn(&C) -> u64,
}

/// What was counted, and for how many items.
#[derive(Debug)]
pub(crate) struct Counted<'a, C> {
    /// The counts.
    pub(crate) counts: &'a C,
    /// Pages, or whatever a cost is given for.
    pub(crate) items: u64,
}

impl<'a> From<&'a Walked> for Counted<'a, Walked> {
    fn from(walked: &'a Walked) -> Self {
        Self {
            counts: walked,
            items: walked.items,
        }
    }
}

/// Makes sure that a table has all that a tariff asks for.
pub(crate) fn check(tariff: &[Item], host: &Host) -> Result<(), HostError> {
    let mut keys = tariff.iter().map(|item| item.key);
    keys.try_for_each(|key| host.figure(key).map(drop))
}

/// Sets cost, interval and tolls of a row.
pub(crate) fn set<C>(
    row: &mut Row,
    (tariff, counted): (&[Item<C>], &Counted<'_, C>),
    (host, samples): (&Host, Samples),
) -> Result<(), HostError> {
    let drawn = samples.machines(host);
    let priced = drawn.map(|prices| tolls(tariff, counted, &prices));
    row.set_samples(priced.collect::<Result<_, _>>()?);
    Ok(())
}

fn tolls<C>(
    tariff: &[Item<C>],
    counted: &Counted<'_, C>,
    prices: &Prices<'_>,
) -> Result<Vec<Toll>, HostError> {
    let toll = |item: &Item<C>| {
        Ok(Toll {
            name: item.toll.to_owned(),
            count_per_page: per_item((item.count)(counted.counts), counted.items),
            cost_each: prices.of(item.key)?,
        })
    };
    tariff.iter().map(toll).collect()
}

/// What one item costs.
pub(crate) fn cost_of(
    tariff: &[Item],
    walked: &Walked,
    prices: &Prices<'_>,
) -> Result<f64, HostError> {
    let tolls = tolls(tariff, &walked.into(), prices)?;
    Ok(tolls.iter().map(Toll::cost_per_page).sum())
}

/// A count for each item; both are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(crate) fn per_item(count: u64, items: u64) -> f64 {
    count as f64 / items as f64
}
