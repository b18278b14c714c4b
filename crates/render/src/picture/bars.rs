//! Bars of parts, on one scale.

use serde::Serialize;

use super::palette::COLOURS;
use crate::document::{Bar, Bars};
use crate::figure;
use crate::harmless;

/// As wide as the longest bar.
const WIDTH: f64 = 1000.0;

#[derive(Serialize)]
pub(crate) struct Drawn {
    pub(crate) label: String,
    /// For those who do not see it.
    described: String,
    pub(crate) sum: String,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Serialize)]
pub(crate) struct Piece {
    x: String,
    width: String,
    colour: usize,
    title: String,
}

/// The bars on one scale, [`WIDTH`] wide. A bar is as long as its pieces, which are those amounts that are positive.
pub(crate) fn drawn(bars: &Bars) -> Vec<Drawn> {
    let sum = |amounts: &[f64]| amounts.iter().sum::<f64>();
    let length = |bar: &Bar| {
        bar.amounts
            .iter()
            .map(|amount| amount.max(0.0))
            .sum::<f64>()
    };
    let longest = bars.rows.iter().map(length);
    let scale = WIDTH / longest.fold(f64::MIN_POSITIVE, f64::max);
    let rows = bars.rows.iter().map(|bar| {
        let named = bars.parts.iter().zip(&bar.amounts);
        let said: Vec<_> = named
            .filter(|(_, amount)| **amount > 0.0)
            .map(|(name, amount)| format!("{} {}", harmless(name), figure::cost(*amount)))
            .collect();
        let label = harmless(&bar.label);
        Drawn {
            described: format!("{label}: {}", said.join(", ")),
            label,
            sum: figure::cost(sum(&bar.amounts)),
            pieces: pieces(&bars.parts, &bar.amounts, scale),
        }
    });
    rows.collect()
}

/// What is no positive amount has no piece.
fn pieces(names: &[String], amounts: &[f64], scale: f64) -> Vec<Piece> {
    let mut x = 0.0;
    let mut pieces = Vec::new();
    for (index, (name, amount)) in names.iter().zip(amounts).enumerate() {
        let width = amount.max(0.0) * scale;
        if width > 0.0 {
            pieces.push(Piece {
                x: format!("{x:.2}"),
                width: format!("{width:.2}"),
                colour: index % COLOURS.len(),
                title: format!("{}: {}", harmless(name), figure::cost(*amount)),
            });
        }
        x += width;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_drawn_as_nothing() {
        let amounts = vec![f64::NAN, -1.0, 0.0, 3.0];
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let drawn = pieces(&names, &amounts, 10.0);
        let titles: Vec<_> = drawn.iter().map(|piece| piece.title.as_str()).collect();
        assert_eq!(titles, ["d: 3.0"]);
        assert_eq!(
            (drawn[0].x.as_str(), drawn[0].width.as_str()),
            ("0.00", "30.00")
        );
    }
}
