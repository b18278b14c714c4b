//! The figures of a table as one sample of the machine that it may be.
//!
//! Each figure is drawn on its own from a triangular distribution between `low` and `high` with its peak at `value`: the
//! least that can be said of three numbers. That figures do not vary together is assumed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::error::HostError;
use super::key::CostKey;
use super::{Figure, Host};

/// A value for each figure of a table.
#[derive(Clone, Debug)]
pub struct Prices<'a> {
    host: &'a Host,
    values: Vec<Option<f64>>,
}

impl Host {
    /// The most likely values.
    #[must_use]
    pub fn prices(&self) -> Prices<'_> {
        self.priced(|_, figure| figure.value)
    }

    /// Sample number `index` of the sequence that `seed` gives. The same for the same arguments, whatever else is drawn.
    #[must_use]
    pub fn sample(&self, seed: u64, index: u64) -> Prices<'_> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ index.wrapping_mul(GOLDEN));
        let mut draws: Vec<f64> = CostKey::all()
            .map(|_| unit_interval(random.next_u64()))
            .collect();
        self.priced(|key, figure| triangular(figure, std::mem::take(&mut draws[key.index()])))
    }

    /// The most likely values, but for one key.
    #[must_use]
    pub fn prices_with(&self, changed: CostKey, value: f64) -> Prices<'_> {
        self.priced(|key, figure| if key == changed { value } else { figure.value })
    }

    fn priced(&self, mut value: impl FnMut(CostKey, &Figure) -> f64) -> Prices<'_> {
        let of = |key| Some(value(key, self.figures.get(&key)?));
        Prices {
            host: self,
            values: CostKey::all().map(of).collect(),
        }
    }
}

impl Prices<'_> {
    /// What `key` costs, if the table has it.
    #[must_use]
    pub fn given(&self, key: CostKey) -> Option<f64> {
        self.values[key.index()]
    }

    /// What `key` costs.
    ///
    /// # Errors
    /// [`HostError::Lacks`]: the table does not have it.
    pub fn of(&self, key: CostKey) -> Result<f64, HostError> {
        match self.values[key.index()] {
            Some(value) => Ok(value),
            None => Err(self
                .host
                .figure(key)
                .err()
                .unwrap_or_else(|| unreachable!("a figure has a value"))),
        }
    }
}

/// 2^64 over the golden ratio: keeps the seeds of neighbouring samples apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The upper 53 bits as a number from 0 to below 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
fn unit_interval(bits: u64) -> f64 {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{ContinuousCDF, Triangular};

    use super::*;
    use crate::cost::Kind;

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
        let host = Host::parse("t", TABLE).unwrap();
        let of = |seed, index| host.sample(seed, index).of(CostKey::PTWR_XCHG).unwrap();
        assert_eq!(of(1, 7).to_bits(), of(1, 7).to_bits());
        assert!(of(1, 7) != of(1, 8) && of(1, 7) != of(2, 7));
        let read = host.sample(1, 7).of(CostKey::ENTRY_READ).unwrap();
        assert!(of(1, 7) != read, "two keys share a draw");
        assert!(host.sample(1, 7).of(CostKey::XCHG_CALL).is_err());
    }

    #[test]
    fn one_price_can_be_changed_alone() {
        let host = Host::parse("t", TABLE).unwrap();
        let prices = host.prices_with(CostKey::ENTRY_READ, 9.0);
        assert_eq!(prices.of(CostKey::ENTRY_READ), Ok(9.0));
        assert_eq!(prices.of(CostKey::PTWR_XCHG), Ok(6.0));
    }

    proptest! {
        /// The inverse, against the cumulative function of a library.
        #[test]
        fn shares_come_back(low in 0.0..10.0f64, up in 0.01..10.0f64, more in 0.01..10.0f64, share in 0.0..1.0f64) {
            let drawn = triangular(&figure(low, low + up, low + up + more), share);
            let known = Triangular::new(low, low + up + more, low + up).unwrap();
            prop_assert!((known.cdf(drawn) - share).abs() < 1e-9);
        }
    }

    #[test]
    fn a_figure_without_spread_is_its_value() {
        assert_eq!(triangular(&figure(3.0, 3.0, 3.0), 0.7), 3.0);
    }
}
