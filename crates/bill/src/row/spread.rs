//! Mean and spread of repeated measurements.

use serde::{Deserialize, Serialize};

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
    ///
    /// One pass: E. A. Youngs, E. M. Cramer, Technometrics 13 (1971), 657-665.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        let (first, rest) = values.split_first()?;
        let (mut count, mut mean, mut sum, mut squares) = (1.0, *first, *first, 0.0);
        for value in rest {
            count += 1.0;
            mean += (value - mean) / count;
            sum += value;
            squares += (count * value - sum).powi(2) / (count * (count - 1.0));
        }
        let stddev = if rest.is_empty() {
            0.0
        } else {
            (squares / (count - 1.0)).sqrt()
        };
        Some(Self { mean, stddev })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::statistics::Statistics;

    use super::*;

    proptest! {
        #[test]
        fn a_library_gives_the_same_to_the_last_bit(values in prop::collection::vec(1e-3..1e9f64, 2..20)) {
            let spread = Spread::new(&values).unwrap();
            let known = [values.as_slice().mean(), values.as_slice().std_dev()];
            prop_assert_eq!([spread.mean, spread.stddev].map(f64::to_bits), known.map(f64::to_bits));
        }
    }

    #[test]
    fn one_value_has_no_deviation_and_none_has_no_spread() {
        assert_eq!(Spread::new(&[]), None);
        assert_eq!(
            Spread::new(&[7.5]),
            Some(Spread {
                mean: 7.5,
                stddev: 0.0
            })
        );
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::new(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((spread.mean - 5.0).abs() < 1e-12);
        assert!((spread.stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }
}
