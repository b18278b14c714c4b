//! An axis with marks of its own, which the library's axes do not have.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use crate::document::Scale;

/// The range of an axis, the meaning of its distances, and the places where something is written.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) range: Range<f64>,
    pub(super) scale: Scale,
    pub(super) marks: Vec<f64>,
}

impl Axis {
    /// The value, or its exponent on a logarithmic axis.
    fn placed(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[allow(clippy::cast_possible_truncation, reason = "a pixel of a page")]
    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let (start, end) = (self.placed(self.range.start), self.placed(self.range.end));
        let share = (self.placed(*value) - start) / (end - start);
        let (from, to) = (f64::from(pixels.0), f64::from(pixels.1));
        (from + share * (to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_are_equally_far_apart_on_a_logarithmic_axis() {
        let axis = |scale| Axis {
            range: 1.0..100.0,
            scale,
            marks: Vec::new(),
        };
        assert_eq!(axis(Scale::Logarithmic).map(&10.0, (0, 200)), 100);
        assert_eq!(axis(Scale::Linear).map(&50.5, (200, 0)), 100);
    }
}
