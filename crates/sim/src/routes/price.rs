//! Attaches prices to what was counted: once for each sample of the cost table.

use pagetoll_bill::Toll;
use pagetoll_cost::{CostError, CostKey, CostTable, Prices};

use super::Ordered;
use pagetoll_models::linux::RouteRun;

/// One item of a tariff: a toll, the figure that it costs each time, and how often it was paid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<C = RouteRun> {
    /// Its name in the bill, the lab's where it means the same.
    pub(crate) toll: &'static str,
    /// The figure that it costs each time.
    pub(crate) key: CostKey,
    /// Number of times that it was paid.
    pub(crate) count: fn(&C) -> u64,
}

/// Counts, and the number of items that they are of.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    /// The counts.
    pub(crate) counts: C,
    /// Pages, or whatever a cost is given for.
    pub(crate) items: u64,
}

impl From<RouteRun> for Counted<RouteRun> {
    fn from(walked: RouteRun) -> Self {
        Self {
            counts: walked,
            items: walked.items,
        }
    }
}

/// Makes sure that a table has all that a tariff asks for.
pub(crate) fn check(tariff: &[Item], costs: &CostTable) -> Result<(), CostError> {
    let mut keys = tariff.iter().map(|item| item.key);
    keys.try_for_each(|key| costs.figure(key).map(drop))
}

/// Tolls of a row: the cost of the counts on each sample of a table.
///
/// # Errors
/// The table lacks a figure of the tariff.
pub(crate) fn samples<C>(
    tariff: &[Item<C>],
    counted: &Counted<C>,
    ordered: &Ordered,
) -> Result<Vec<Vec<Toll>>, CostError> {
    let indices = 0..ordered.count();
    let priced = indices.map(|index| tolls(tariff, counted, &ordered.prices(index)));
    priced.collect()
}

fn tolls<C>(
    tariff: &[Item<C>],
    counted: &Counted<C>,
    prices: &Prices<'_>,
) -> Result<Vec<Toll>, CostError> {
    let toll = |item: &Item<C>| {
        let count = per_item((item.count)(&counted.counts), counted.items);
        Ok(Toll::new(item.toll, count, prices.price(item.key)?))
    };
    tariff.iter().map(toll).collect()
}

/// Cost of one item.
pub(crate) fn cost_of<C>(
    tariff: &[Item<C>],
    counted: &Counted<C>,
    prices: &Prices<'_>,
) -> Result<f64, CostError> {
    let tolls = tolls(tariff, counted, prices)?;
    Ok(Toll::sum(&tolls))
}

/// A count for each item; both are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(crate) fn per_item(count: u64, items: u64) -> f64 {
    count as f64 / items as f64
}
