//! The median of some runs, and the interval in which another bill of the same order has its own.
//!
//! The interval is one of order statistics: for runs that could have come in any order, and a median of as many runs to come,
//! the chance that this median is below the k-th smallest run is known whatever the distribution (D. A. S. Fraser,
//! Nonparametric Methods in Statistics, 1957, section 4). No deviation enters, so that one run that was interrupted for long
//! does not widen it. Runs drift as well, and are then closer to their neighbours than to those of another bill: where medians
//! of blocks of consecutive runs differ by more than as many independent runs would, the interval is wider by that ratio.
//!
//! On a busy host the load of another bill is not this one's. [`Interval::at_any_load`] makes room for it by the share of their
//! time that the runs waited for CPUs. Not in it: a machine whose frequency, memory or kernel is another one.

use super::figures::{Interval, median};

/// Chance that another bill is below the interval, and that it is above.
const BEYOND: f64 = 0.05;
/// Blocks of consecutive runs that are compared with one another.
const BLOCKS: usize = 3;
/// Runs of a block from which on its median is one.
const LEAST_OF_BLOCK: usize = 2;
/// The largest ratio by which drift widens an interval: three blocks do not tell a larger one from chance. Assumed.
const MOST_DRIFT: f64 = 4.0;

/// Part of the logarithm of the factor that waiting costs by which the load of neighbouring bills moves figures. Fitted: with it
/// 9 of 10 neighbours of 17 bills of demand paging, at load averages of 6 to 12 on two CPUs, were inside.
const OF_WAITING: f64 = 0.33;
/// The largest share of waiting that widens an interval: of ten threads on a CPU, nine wait.
const MOST_WAITED: f64 = 0.9;

impl Interval {
    /// The interval in which 90 % of other bills of the same order have their median, from one bill's runs in the order of
    /// time; `None` for fewer than two. It has the median of these runs in it.
    #[must_use]
    pub fn of_another_bill(runs: &[f64]) -> Option<Self> {
        let middle = median(runs).filter(|_| runs.len() > 1)?;
        let scale = Scale::fitting(runs);
        let values: Vec<f64> = runs.iter().map(|run| scale.of_run(*run)).collect();
        let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
        let (below, above) = (lower_bound(&values), -lower_bound(&mirrored));
        let centre = scale.of_run(middle);
        let drift = drift(&values);
        let low = scale.to_run(centre - drift * (centre - below).max(0.0));
        let high = scale.to_run(centre + drift * (above - centre).max(0.0));
        // The logarithm and its inverse differ from the median in the last digit.
        Some(Self {
            low: low.min(middle),
            high: high.max(middle),
        })
    }
}

impl Interval {
    /// The interval around `figure` for bills at another load than that at which threads waited this share of their time for
    /// CPUs: independent of the runs' own spread, times are shorter and longer by a third of what waiting has cost.
    #[must_use]
    pub fn at_any_load(self, figure: f64, waited: f64) -> Self {
        let by_load = -OF_WAITING * (1.0 - waited.clamp(0.0, MOST_WAITED)).ln();
        let factor = |own: f64| own.ln().hypot(by_load).exp();
        let positive = self.low > 0.0 && figure > 0.0;
        match positive {
            true => Self {
                low: (figure / factor(figure / self.low)).min(self.low),
                high: (figure * factor(self.high / figure)).max(self.high),
            },
            false => self,
        }
    }
}

/// Scale on which runs are compared: times are disturbed by factors, differences of times have either sign.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Logarithmic,
    Linear,
}

impl Scale {
    fn fitting(runs: &[f64]) -> Self {
        match runs.iter().all(|run| *run > 0.0) {
            true => Self::Logarithmic,
            false => Self::Linear,
        }
    }

    fn of_run(self, run: f64) -> f64 {
        match self {
            Self::Logarithmic => run.ln(),
            Self::Linear => run,
        }
    }

    fn to_run(self, value: f64) -> f64 {
        match self {
            Self::Logarithmic => value.exp(),
            Self::Linear => value,
        }
    }
}

/// Value below which the median of as many values to come is with a chance of [`BEYOND`], if all could have come in any
/// order: between two of them, or, of few, so far below the least that an exponential tail as steep as theirs has it.
fn lower_bound(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut below = 0.0;
    for rank in 1..sorted.len() {
        let chance = chance_below(sorted.len(), rank);
        if chance > BEYOND {
            return match rank {
                1 => sorted[0] - (chance / BEYOND).ln() * first_gap(&sorted),
                _ => {
                    let share = (BEYOND - below) / (chance - below);
                    sorted[rank - 2] + share * (sorted[rank - 1] - sorted[rank - 2])
                }
            };
        }
        below = chance;
    }
    sorted[0]
}

/// Distance of the least values from one another: the mean of at most two.
fn first_gap(sorted: &[f64]) -> f64 {
    let gaps = (sorted.len() - 1).min(2);
    (sorted[gaps] - sorted[0]) / gaps as f64
}

/// The chance that the median of `count` values to come is below the `rank`-th smallest of as many that came before.
fn chance_below(count: usize, rank: usize) -> f64 {
    let median = count.div_ceil(2);
    (median..=count)
        .map(|before| {
            let ways = ln_choose(rank - 1 + before, before)
                + ln_choose(2 * count - rank - before, count - before);
            (ways - ln_choose(2 * count, count)).exp()
        })
        .sum()
}

fn ln_choose(all: usize, some: usize) -> f64 {
    (1..=some)
        .map(|index| ((all - some + index) as f64 / index as f64).ln())
        .sum()
}

/// Ratio of the spread of block medians to that of medians of independent runs; 1 where it is less, or where blocks would be
/// too short.
fn drift(values: &[f64]) -> f64 {
    let of_block = values.len() / BLOCKS;
    if of_block < LEAST_OF_BLOCK {
        return 1.0;
    }
    let block = |index: usize| {
        let end = if index + 1 == BLOCKS {
            values.len()
        } else {
            (index + 1) * of_block
        };
        median(&values[index * of_block..end]).unwrap_or_default()
    };
    let blocks: Vec<f64> = (0..BLOCKS).map(block).collect();
    let between = super::Spread::new(&blocks).map_or(0.0, |spread| spread.stddev);
    let independent = deviation(values) * STDERR_OF_MEDIAN / (of_block as f64).sqrt();
    if independent > 0.0 {
        (between / independent).clamp(1.0, MOST_DRIFT)
    } else {
        1.0
    }
}

/// Standard error of a median of normal values, in those of a mean: sqrt(pi / 2).
const STDERR_OF_MEDIAN: f64 = 1.2533;
/// Standard deviation of normal values in median absolute deviations.
const DEVIATION_OF_MAD: f64 = 1.4826;

/// Standard deviation by the median absolute deviation.
fn deviation(values: &[f64]) -> f64 {
    let middle = median(values).unwrap_or_default();
    let apart: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    DEVIATION_OF_MAD * median(&apart).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Runs with a factor of the whole bill and one of each run, whose logarithm is exponential: a long tail.
    struct Host {
        random: SplitMix64,
    }

    impl Host {
        fn new() -> Self {
            let random = SplitMix64::seed_from_u64(1957);
            Self { random }
        }

        fn share(&mut self) -> f64 {
            (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn runs(&mut self, count: usize) -> Vec<f64> {
            (0..count)
                .map(|_| 1000.0 * (1.0 - self.share()).powf(-0.4))
                .collect()
        }

        /// The share of bills that have the median of another one in their interval.
        fn coverage(&mut self, runs: usize) -> f64 {
            let bills = 4000;
            let inside = (0..bills).filter(|_| {
                let interval = Interval::of_another_bill(&self.runs(runs)).unwrap();
                let other = median(&self.runs(runs)).unwrap();
                (interval.low..=interval.high).contains(&other)
            });
            inside.count() as f64 / f64::from(bills)
        }
    }

    #[test]
    fn runs_that_do_not_drift_have_nine_of_ten_other_bills_inside() {
        let mut host = Host::new();
        for runs in [3, 4, 5, 8, 11, 20] {
            let coverage = host.coverage(runs);
            assert!((0.86..0.96).contains(&coverage), "{runs} runs: {coverage}");
        }
    }

    /// All ways in which two bills of three runs can lie: of ten divisions of six, those with a median below the least.
    #[test]
    fn the_chance_is_that_of_counting_all_divisions() {
        let count = 3;
        for rank in 1..=count {
            let mut below = 0;
            let mut all = 0;
            for subset in 0_u32..64 {
                if subset.count_ones() != 3 {
                    continue;
                }
                let of = |wanted: bool| -> Vec<u32> {
                    (0..6)
                        .filter(|index| (subset >> index & 1 == 1) == wanted)
                        .collect()
                };
                let (old, new) = (of(true), of(false));
                all += 1;
                below += u32::from(new[1] < old[rank - 1]);
            }
            let chance = chance_below(count, rank);
            assert!(
                (chance - f64::from(below) / f64::from(all)).abs() < 1e-12,
                "{rank}: {chance}"
            );
        }
    }

    #[test]
    fn drift_widens_an_interval_and_the_order_of_independent_runs_does_not() {
        let rising: Vec<f64> = (0..12).map(|run| 1000.0 * 1.05_f64.powi(run)).collect();
        let shuffled: Vec<f64> = (0..12).map(|run| rising[run * 5 % 12]).collect();
        let width = |runs: &[f64]| {
            let interval = Interval::of_another_bill(runs).unwrap();
            (interval.high / interval.low).ln()
        };
        assert!(
            width(&rising) > 1.3 * width(&shuffled),
            "{}",
            width(&rising)
        );
    }

    #[test]
    fn one_run_has_no_interval_and_equal_runs_have_an_empty_one() {
        assert_eq!(Interval::of_another_bill(&[1.0]), None);
        let equal = Interval::of_another_bill(&[0.3; 7]).unwrap();
        assert!((equal.low - 0.3).abs() < 1e-12 && (equal.high - 0.3).abs() < 1e-12);
        let differences = Interval::of_another_bill(&[-1.0, 0.0, 2.0, 1.0]).unwrap();
        assert!(differences.low < -1.0 && differences.high > 2.0);
    }

    #[test]
    fn an_interval_has_room_for_the_load_that_was_measured() {
        let interval = Interval {
            low: 90.0,
            high: 120.0,
        };
        let idle = interval.at_any_load(100.0, 0.0);
        assert!((idle.low - 90.0).abs() < 1e-9 && (idle.high - 120.0).abs() < 1e-9);
        let busy = interval.at_any_load(100.0, 0.5);
        // By hand: 100 / exp(sqrt(0.1054^2 + 0.2287^2)), 100 * exp(sqrt(0.1823^2 + 0.2287^2)).
        assert!((busy.low - 77.74).abs() < 0.01, "{busy:?}");
        assert!((busy.high - 133.98).abs() < 0.01, "{busy:?}");
        let differences = Interval {
            low: -1.0,
            high: 1.0,
        };
        assert_eq!(differences.at_any_load(0.5, 0.5), differences);
    }

    #[test]
    fn a_median_of_two_is_between_them() {
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, 2.0, 9.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_run_that_was_interrupted_does_not_widen_an_interval() {
        let mut runs: Vec<f64> = (0..11).map(|run| 100.0 + f64::from(run)).collect();
        let quiet = Interval::of_another_bill(&runs).unwrap();
        runs[10] = 1e9;
        assert_eq!(Interval::of_another_bill(&runs), Some(quiet));
    }

    proptest! {
        #[test]
        fn the_interval_has_the_median_in_it(runs in prop::collection::vec(1e-3..1e9f64, 2..30)) {
            let interval = Interval::of_another_bill(&runs).unwrap();
            let middle = median(&runs).unwrap();
            prop_assert!(interval.low <= middle && middle <= interval.high);
            prop_assert!(interval.low > 0.0 && interval.high.is_finite());
        }
    }
}
