//! Round values inside a range, as people count: 1, 2, 5, 10.

use std::ops::Range;

use crate::document::Scale;

/// About so many on a linear axis.
const MOST: f64 = 5.0;

/// The ticks of an axis, upwards. The range is not empty and, on a logarithmic axis, above 0.
pub(super) fn on(range: &Range<f64>, scale: Scale) -> Vec<f64> {
    match scale {
        Scale::Linear => linear(range),
        Scale::Logarithmic => logarithmic(range),
    }
}

fn linear(range: &Range<f64>) -> Vec<f64> {
    let step = round_up((range.end - range.start) / MOST);
    let first = (range.start / step).ceil();
    let indices = (0..=u8::MAX).map(f64::from);
    indices
        .map(|index| (first + index) * step)
        .take_while(|value| *value <= range.end)
        .collect()
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0].map(|round| round * power);
    let fits = rounds.into_iter().find(|round| *round >= step);
    fits.unwrap_or(step)
}

/// Powers of ten, and their double and fivefold where there are few.
fn logarithmic(range: &Range<f64>) -> Vec<f64> {
    let decades = range.end.log10() - range.start.log10();
    let rounds: &[f64] = if decades > 3.0 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let first = range.start.log10().floor();
    let powers = (0..=u8::MAX).map(|index| 10_f64.powf(first + f64::from(index)));
    let powers = powers.take_while(|power| *power <= range.end);
    let ticks = powers.flat_map(|power| rounds.iter().map(move |round| round * power));
    ticks.filter(|tick| range.contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(linear(&(0.0..2139.0)), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(linear(&(96.0..118.0)), [100.0, 105.0, 110.0, 115.0]);
        assert_eq!(logarithmic(&(3.0..90.0)), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(
            logarithmic(&(8.0..50_000.0)),
            [10.0, 100.0, 1000.0, 10_000.0]
        );
    }
}
