//! Mean and spread of repeated measurements.

use serde::{Deserialize, Serialize};
use statrs::statistics::Statistics;

/// Mean and sample standard deviation of at least one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for a single value, which has none.
    pub stddev: f64,
}

impl Spread {
    /// The spread of `values`, or `None` when there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        match values {
            [] => None,
            [only] => Some(Self {
                mean: *only,
                stddev: 0.0,
            }),
            several => Some(Self {
                mean: several.mean(),
                stddev: several.std_dev(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_no_deviation_and_none_has_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(
            Spread::of(&[7.5]),
            Some(Spread {
                mean: 7.5,
                stddev: 0.0
            })
        );
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((spread.mean - 5.0).abs() < 1e-12);
        assert!((spread.stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }
}
