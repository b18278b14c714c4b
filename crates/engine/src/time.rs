//! Virtual time: [`Time`] is an instant, [`Ticks`] a span.
//!
//! The unit is the caller's (nanoseconds, instructions); the engine only adds and compares.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant, in ticks since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Self = Self(0);
    /// The last instant; no run gets past it.
    pub const MAX: Self = Self(u64::MAX);

    /// The bare number of ticks since the start.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The instant `span` later, or `None` beyond [`Time::MAX`].
    #[must_use]
    #[inline]
    pub const fn checked_add(self, span: Ticks) -> Option<Self> {
        match self.0.checked_add(span.0) {
            Some(ticks) => Some(Self(ticks)),
            None => None,
        }
    }

    /// The span from `earlier` to here, zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Ticks {
        Ticks(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A span of virtual time, in the caller's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The bare number of ticks.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Adds, staying at `u64::MAX` (which no charge can reach without an error).
    #[must_use]
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Multiplies, staying at `u64::MAX` (which no charge can reach without an error).
    #[must_use]
    #[inline]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for Ticks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for Ticks {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Sum for Ticks {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl Add<Ticks> for Time {
    type Output = Self;
    fn add(self, span: Ticks) -> Self {
        Self(self.0 + span.0)
    }
}

impl Sub for Time {
    type Output = Ticks;
    fn sub(self, earlier: Self) -> Ticks {
        Ticks(self.0 - earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_beyond_the_end_is_refused() {
        assert_eq!(Time(1).checked_add(Ticks(2)), Some(Time(3)));
        assert_eq!(Time::MAX.checked_add(Ticks(1)), None);
    }

    #[test]
    fn a_span_is_never_negative() {
        assert_eq!(Time(5).since(Time(3)), Ticks(2));
        assert_eq!(Time(3).since(Time(5)), Ticks::ZERO);
    }

    #[test]
    fn spans_add_up() {
        let total: Ticks = [Ticks(1), Ticks(2) * 3].into_iter().sum();
        assert_eq!(Time(10) + total, Time(17));
        assert_eq!(Ticks(u64::MAX).saturating_add(Ticks(1)), Ticks(u64::MAX));
    }
}
