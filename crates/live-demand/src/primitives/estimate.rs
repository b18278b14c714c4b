//! The middle of some samples, and how far they lie apart.

use pagetoll_bill::row;

/// Median, and where 80 % of the samples lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the samples, in nanoseconds or as a number.
    pub median: f64,
    /// 10 % of the samples are below this.
    pub low: f64,
    /// 10 % of the samples are above this.
    pub high: f64,
    /// Rounds that had the primitive.
    pub samples: usize,
}

impl Estimate {
    /// The estimate of at least one sample.
    pub(super) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let beyond = samples.len() / 10;
        Some(Self {
            median: median(&samples),
            low: samples[beyond],
            high: samples[last - beyond],
            samples: samples.len(),
        })
    }
}

/// The median of some samples; 0 of none.
pub(super) fn median(samples: &[f64]) -> f64 {
    row::median(samples).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_sample_in_ten_is_left_out_on_either_side() {
        let estimate = Estimate::of((0..20).rev().map(f64::from).collect()).unwrap();
        assert_eq!((estimate.low, estimate.high), (2.0, 17.0));
        assert_eq!((estimate.median, estimate.samples), (9.5, 20));
        assert_eq!(Estimate::of(vec![]), None);
    }

    #[test]
    fn a_burst_that_was_disturbed_moves_nothing() {
        assert_eq!(median(&[5.0, 1e9, 4.0]), 5.0);
        assert_eq!(median(&[]), 0.0);
    }

    proptest! {
        /// Half of the samples are on either side of the median, by counting.
        #[test]
        fn the_median_is_in_the_middle(samples in proptest::collection::vec(-1e6..1e6_f64, 1..60)) {
            let estimate = Estimate::of(samples.clone()).unwrap();
            let below = samples.iter().filter(|&&sample| sample < estimate.median).count();
            let above = samples.iter().filter(|&&sample| sample > estimate.median).count();
            prop_assert!(below <= samples.len() / 2 && above <= samples.len() / 2);
            prop_assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
        }
    }
}
