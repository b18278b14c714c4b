//! The universal scalability law beside the model: what two points say without knowing any mechanism.
//!
//! `X(n) = n X(1) / (1 + a (n - 1) + b n (n - 1))`, with contention `a` and coherency `b` (N. Gunther, Guerrilla
//! Capacity Planning, 2007). Through the rates of 1 and 4 vCPUs goes a family of curves, from `b = 0` to `a = 0`; of
//! these the one nearest to all points is taken, which could not be chosen beforehand: the best that the law can do with
//! the two points.

use pagetoll_bill::row::{error_of, median};

/// A rate and the number of vCPUs that it is of.
pub(crate) type Point = (u32, f64);

/// A curve of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scalability {
    alone: f64,
    contention: f64,
    coherency: f64,
}

/// Curves of the family that are tried.
const CURVES: u32 = 200;

impl Scalability {
    /// The curve through both points that has the least median error over `all`. `None` if the second is no slower for
    /// each vCPU than the first.
    pub(crate) fn through(first: Point, second: Point, all: &[Point]) -> Option<Self> {
        let alone = first.1 / f64::from(first.0);
        let n = f64::from(second.0);
        let slowdown = n * alone / second.1 - 1.0;
        if first.0 != 1 || second.0 < 2 || slowdown <= 0.0 {
            return None;
        }
        let curves = (0..=CURVES).map(|step| {
            let share = f64::from(step) / f64::from(CURVES);
            Self {
                alone,
                contention: (1.0 - share) * slowdown / (n - 1.0),
                coherency: share * slowdown / (n * (n - 1.0)),
            }
        });
        curves.min_by(|a, b| a.error(all).total_cmp(&b.error(all)))
    }

    /// The rate of `vcpus`.
    pub(crate) fn rate(&self, vcpus: u32) -> f64 {
        let n = f64::from(vcpus);
        n * self.alone / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))
    }

    fn error(&self, points: &[Point]) -> f64 {
        let errors = points.iter().map(|&(n, rate)| error_of(self.rate(n), rate));
        let errors: Vec<f64> = errors.collect();
        median(&errors).unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_the_law_is_found_again() {
        let made = Scalability {
            alone: 100.0,
            contention: 0.05,
            coherency: 0.002,
        };
        let points: Vec<Point> = [1, 2, 4, 8, 64, 256].map(|n| (n, made.rate(n))).to_vec();
        let found = Scalability::through(points[0], points[2], &points).unwrap();
        assert!(
            (found.rate(4) - made.rate(4)).abs() < 1e-9,
            "goes through its point"
        );
        assert!(found.error(&points) < 0.02, "{found:?}");
    }

    #[test]
    fn what_scales_linearly_or_better_has_no_curve() {
        assert_eq!(Scalability::through((1, 10.0), (4, 40.0), &[]), None);
        assert_eq!(Scalability::through((2, 10.0), (4, 10.0), &[]), None);
    }
}
