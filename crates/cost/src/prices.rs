//! The figures of a table as one sample of the machine that it may be.
//!
//! Each figure is drawn on its own from a triangular distribution between `low` and `high` with its peak at `value`: the
//! least that can be said of three numbers. That figures do not vary together is assumed, but for those of which one is
//! part of the other ([`ORDERED`]): the whole is drawn from what its distribution has above its part.
//!
//! Each key has a stream of its own: a figure that is added to a table leaves all other draws as they were.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::error::CostError;
use crate::key::CostKey;
use crate::{CostTable, Figure};

/// A value for each figure of a table.
#[derive(Clone, Debug)]
pub struct Prices<'a> {
    costs: &'a CostTable,
    values: Vec<Option<f64>>,
}

/// Pairs of a part and its whole, which is never smaller; a whole that is a part of another stands before it.
pub(super) const ORDERED: [(CostKey, CostKey); 4] = [
    (CostKey::FLUSH_HANDLE_CR3, CostKey::FLUSH_HOLD_PGE_OFF),
    (CostKey::FLUSH_HANDLE_CR3, CostKey::FLUSH_HOLD_NO_SHORTHAND),
    (CostKey::FLUSH_HANDLE_CR3, CostKey::FLUSH_HOLD_SHORTHAND),
    (CostKey::FLUSH_HOLD_PGE_OFF, CostKey::FLUSH_HOLD_PGE_ON),
];

impl CostTable {
    /// The most likely values.
    #[must_use]
    pub fn prices(&self) -> Prices<'_> {
        self.priced(|_, figure| figure.value)
    }

    /// Sample number `index` of the sequence that `seed` gives. The same for the same arguments, whatever else is drawn.
    #[must_use]
    pub fn sample(&self, seed: u64, index: u64) -> Prices<'_> {
        let seed = seed ^ index.wrapping_mul(GOLDEN);
        let mut drawn = self.priced(|key, figure| triangular(figure, share_of(seed, key)));
        for (part, whole) in ORDERED {
            if let (Some(least), Some(figure)) = (drawn.given(part), self.figures.get(&whole)) {
                let value = triangular_above(figure, least, share_of(seed, whole));
                drawn.values[whole.index()] = Some(value);
            }
        }
        drawn
    }

    /// The most likely values, but for one key. Of figures of which one is part of the other, the whole is no smaller.
    #[must_use]
    pub fn prices_with(&self, changed: CostKey, value: f64) -> Prices<'_> {
        let mut prices =
            self.priced(|key, figure| if key == changed { value } else { figure.value });
        for (part, whole) in ORDERED {
            if let (Some(least), Some(value)) = (prices.given(part), prices.given(whole)) {
                prices.values[whole.index()] = Some(value.max(least));
            }
        }
        prices
    }

    fn priced(&self, mut value: impl FnMut(CostKey, &Figure) -> f64) -> Prices<'_> {
        let price = |key| Some(value(key, self.figures.get(&key)?));
        Prices {
            costs: self,
            values: CostKey::all().map(price).collect(),
        }
    }
}

impl Prices<'_> {
    /// Cost of `key`, if the table has it.
    #[must_use]
    pub fn given(&self, key: CostKey) -> Option<f64> {
        self.values[key.index()]
    }

    /// The table's figure of `key`, whatever this sample has drawn.
    #[must_use]
    pub fn figure(&self, key: CostKey) -> Option<&Figure> {
        self.costs.figures.get(&key)
    }

    /// The cost of one operation, in the table's unit.
    ///
    /// # Errors
    /// [`CostError::Lacks`]: the table does not have it.
    pub fn price(&self, key: CostKey) -> Result<f64, CostError> {
        self.given(key).ok_or_else(|| self.costs.lacks(key))
    }
}

/// 2^64 over the golden ratio: keeps the seeds of neighbouring samples apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The draw of one key, from 0 to below 1: the first of the stream that the seed and the key's name give.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
fn share_of(seed: u64, key: CostKey) -> f64 {
    // The 64-bit FNV-1a hash (G. Fowler, L. C. Noll, K.-P. Vo): equal on every machine and in every version.
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let name = key.name().as_bytes().iter();
    let seed = seed ^ name.fold(0xcbf2_9ce4_8422_2325, step);
    let bits = Xoshiro256PlusPlus::seed_from_u64(seed).next_u64();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The inverse of the triangular distribution's cumulative function at `share`.
fn triangular(figure: &Figure, share: f64) -> f64 {
    let Figure {
        value, low, high, ..
    } = *figure;
    let width = high - low;
    if width == 0.0 {
        return value;
    }
    let below = (value - low) / width;
    if share < below {
        low + (share * width * (value - low)).sqrt()
    } else {
        high - ((1.0 - share) * width * (high - value)).sqrt()
    }
}

/// Inverse of the distribution's part from `least` on at `share`; `least` if the distribution has no such part.
fn triangular_above(figure: &Figure, least: f64, share: f64) -> f64 {
    let below = cumulative(figure, least);
    triangular(figure, below + share * (1.0 - below)).max(least)
}

/// Share of the triangular distribution below `at`.
fn cumulative(figure: &Figure, at: f64) -> f64 {
    let Figure {
        value, low, high, ..
    } = *figure;
    let width = high - low;
    if at <= low {
        0.0
    } else if at >= high {
        1.0
    } else if at < value {
        (at - low).powi(2) / (width * (value - low))
    } else {
        1.0 - (high - at).powi(2) / (width * (high - value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, Triangular};

    use super::*;
    use crate::Kind;

    fn figure(low: f64, value: f64, high: f64) -> Figure {
        Figure {
            value,
            low,
            high,
            kind: Kind::Assumed,
            fitted_to: vec![],
            source: "test".into(),
            line: 1,
        }
    }

    const TABLE: &str = "name = \"t\"\nsummary = \"t\"\nunit = \"instructions\"\n\
        [figure.\"entry.read\"]\nvalue = 6\nlow = 5\nhigh = 9\nkind = \"assumed\"\nsource = \"s\"\n\
        [figure.\"ptwr.xchg\"]\nvalue = 6\nlow = 5\nhigh = 9\nkind = \"assumed\"\nsource = \"s\"\n";

    #[test]
    fn a_sample_is_the_same_whenever_it_is_drawn_and_others_differ() {
        let costs = CostTable::parse("t", TABLE).unwrap();
        let price = |seed, index| costs.sample(seed, index).price(CostKey::PTWR_XCHG).unwrap();
        assert_eq!(price(1, 7).to_bits(), price(1, 7).to_bits());
        assert!(price(1, 7) != price(1, 8) && price(1, 7) != price(2, 7));
        let read = costs.sample(1, 7).price(CostKey::ENTRY_READ).unwrap();
        assert!(price(1, 7) != read, "two keys share a draw");
        assert!(costs.sample(1, 7).price(CostKey::XCHG_CALL).is_err());
    }

    #[test]
    fn a_figure_that_is_added_moves_no_other_draw() {
        let costs = CostTable::parse("t", TABLE).unwrap();
        let more = TABLE.replace("\"ptwr.xchg\"", "\"demand.touch\"");
        let more = &more[more.find("[figure.\"demand").unwrap()..];
        let longer = CostTable::parse("t", &format!("{TABLE}{more}")).unwrap();
        assert_eq!(longer.figures().count(), 3);
        for index in 0..100 {
            let (a, b) = (costs.sample(3, index), longer.sample(3, index));
            for (key, _) in costs.figures() {
                assert_eq!(
                    a.price(key).map(f64::to_bits),
                    b.price(key).map(f64::to_bits)
                );
            }
        }
    }

    /// Ranges that overlap almost wholly, so that independent draws would be out of order half of the time.
    const HOLDS: &str = "name = \"t\"\nsummary = \"t\"\nunit = \"nanoseconds\"\n\
        [figure.\"flush.handle.cr3\"]\nvalue = 6\nlow = 1\nhigh = 90\nkind = \"assumed\"\nsource = \"s\"\n\
        [figure.\"flush.hold.pge-off\"]\nvalue = 50\nlow = 5\nhigh = 99\nkind = \"assumed\"\nsource = \"s\"\n\
        [figure.\"flush.hold.pge-on\"]\nvalue = 51\nlow = 5\nhigh = 95\nkind = \"assumed\"\nsource = \"s\"\n";

    #[test]
    fn ten_thousand_draws_keep_a_hold_above_its_parts() {
        let costs = CostTable::parse("t", HOLDS).unwrap();
        let mut above = 0;
        for index in 0..10_000 {
            let prices = costs.sample(1, index);
            let price = |key| prices.price(key).unwrap();
            let (off, on) = (
                price(CostKey::FLUSH_HOLD_PGE_OFF),
                price(CostKey::FLUSH_HOLD_PGE_ON),
            );
            assert!(price(CostKey::FLUSH_HANDLE_CR3) <= off && off <= on);
            above += u32::from(off < on);
        }
        assert!(above > 9_500, "{above}: most are not merely equal");
    }

    #[test]
    fn one_price_can_be_changed_alone() {
        let costs = CostTable::parse("t", TABLE).unwrap();
        let prices = costs.prices_with(CostKey::ENTRY_READ, 9.0);
        assert_eq!(prices.price(CostKey::ENTRY_READ), Ok(9.0));
        assert_eq!(prices.price(CostKey::PTWR_XCHG), Ok(6.0));
    }

    proptest! {
        /// The inverse, against the cumulative function of a library.
        #[test]
        fn shares_come_back(low in 0.0..10.0f64, up in 0.01..10.0f64, more in 0.01..10.0f64, share in 0.0..1.0f64) {
            let drawn = triangular(&figure(low, low + up, low + up + more), share);
            let known = Triangular::new(low, low + up + more, low + up).unwrap();
            prop_assert!((known.cdf(drawn) - share).abs() < 1e-9);
            prop_assert!((cumulative(&figure(low, low + up, low + up + more), drawn) - share).abs() < 1e-9);
        }
    }

    #[test]
    fn a_figure_without_spread_is_its_value() {
        assert_eq!(triangular(&figure(3.0, 3.0, 3.0), 0.7), 3.0);
    }
}
