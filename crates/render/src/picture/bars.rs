//! Bars of parts, with a line for the spread of each.

use serde::Serialize;

use super::palette::COLOURS;
use crate::document::{Bar, Bars, Length};
use crate::figure;
use crate::harmless;

/// The width of the longest bar.
const WIDTH: f64 = 1000.0;

/// A bar, as templates want it.
#[derive(Serialize)]
pub(crate) struct Drawn {
    pub(crate) label: String,
    /// For those who do not see it.
    described: String,
    pub(crate) sum: String,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) error: Option<ErrorBar>,
}

/// A part of a bar.
#[derive(Serialize)]
pub(crate) struct Piece {
    x: String,
    width: String,
    colour: usize,
    title: String,
}

/// Ends of a line across the bar's end.
#[derive(Serialize)]
pub(crate) struct ErrorBar {
    low: String,
    high: String,
}

/// The bars, [`WIDTH`] wide.
pub(crate) fn drawn(bars: &Bars) -> Vec<Drawn> {
    let longest = bars.rows.iter().map(|bar| length(bar, bars.length));
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let rows = bars.rows.iter().map(|bar| {
        let (zero, scale) = match bars.length {
            Length::Amount => (0.0, WIDTH / longest),
            Length::Signed => (WIDTH / 2.0, WIDTH / 2.0 / longest),
            Length::OwnShare => (0.0, WIDTH / length(bar, bars.length).max(f64::MIN_POSITIVE)),
        };
        let label = harmless(&bar.label);
        let sum = harmless(&bar.sum);
        Drawn {
            described: format!("{label}: {}", described(bars, bar)),
            label,
            sum,
            pieces: match bars.length {
                Length::Signed => signed(&bars.parts, &bar.amounts, zero, scale),
                Length::Amount | Length::OwnShare => pieces(&bars.parts, &bar.amounts, scale),
            },
            error: (bars.length == Length::Amount)
                .then(|| error(bar, scale))
                .flatten(),
        }
    });
    rows.collect()
}

/// The part of a bar's line that is used: with its error bar, where that is drawn.
fn length(bar: &Bar, by: Length) -> f64 {
    let positive = |amount: &f64| amount.max(0.0);
    match by {
        Length::Amount => {
            let end = bar.error.map_or(0.0, |error| error.high).max(sum(bar));
            end.max(bar.amounts.iter().map(positive).sum())
        }
        Length::OwnShare => bar.amounts.iter().map(positive).sum(),
        Length::Signed => bar
            .amounts
            .iter()
            .map(|amount| amount.abs())
            .fold(0.0, f64::max),
    }
}

fn sum(bar: &Bar) -> f64 {
    bar.amounts.iter().sum()
}

fn described(bars: &Bars, bar: &Bar) -> String {
    if bars.length == Length::Signed {
        return harmless(&bar.sum);
    }
    let named = bars.parts.iter().zip(&bar.amounts);
    let said = named
        .filter(|(_, amount)| **amount > 0.0)
        .map(|(name, amount)| format!("{} {}", harmless(name), figure::cost(*amount)));
    said.collect::<Vec<_>>().join(", ")
}

/// Pieces one after the other; no piece of an amount that is not positive.
fn pieces(names: &[String], amounts: &[f64], scale: f64) -> Vec<Piece> {
    let mut x = 0.0;
    let mut pieces = Vec::new();
    for (index, (name, amount)) in names.iter().zip(amounts).enumerate() {
        let width = amount.max(0.0) * scale;
        if width > 0.0 {
            let title = format!("{}: {}", harmless(name), figure::cost(*amount));
            pieces.push(Piece::new(x, width, index, title));
        }
        x += width;
    }
    pieces
}

/// Pieces that begin at `zero`, to the left where they are negative.
fn signed(names: &[String], amounts: &[f64], zero: f64, scale: f64) -> Vec<Piece> {
    let parts = names.iter().zip(amounts).enumerate();
    let drawn = parts.filter(|(_, (_, amount))| amount.abs() * scale > 0.0);
    let pieces = drawn.map(|(index, (name, amount))| {
        let title = format!("{}: {}", harmless(name), figure::signed(*amount, 1));
        let x = zero + amount.min(0.0) * scale;
        Piece::new(x, amount.abs() * scale, index, title)
    });
    pieces.collect()
}

/// No error bar of a spread that is nothing.
fn error(bar: &Bar, scale: f64) -> Option<ErrorBar> {
    let error = bar.error.filter(|error| error.high > error.low)?;
    let at = |value: f64| format!("{:.2}", value.max(0.0) * scale);
    Some(ErrorBar {
        low: at(error.low),
        high: at(error.high),
    })
}

impl Piece {
    fn new(x: f64, width: f64, part: usize, title: String) -> Self {
        Self {
            x: format!("{x:.2}"),
            width: format!("{width:.2}"),
            colour: part % COLOURS.len(),
            title,
        }
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::row::Interval;

    use super::*;

    fn bars(length: Length, amounts: &[f64]) -> Bars {
        let bar = |amount: &f64| Bar {
            label: String::new(),
            sum: String::new(),
            amounts: vec![*amount],
            error: Some(Interval {
                low: amount - 10.0,
                high: amount + 10.0,
            }),
        };
        Bars {
            unit: String::new(),
            parts: vec!["a".to_owned()],
            length,
            rows: amounts.iter().map(bar).collect(),
        }
    }

    fn places(bars: &Bars) -> Vec<(String, String)> {
        let drawn = drawn(bars).into_iter();
        let pieces = drawn.flat_map(|bar| bar.pieces);
        pieces.map(|piece| (piece.x, piece.width)).collect()
    }

    fn texts(places: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(x, width): &(&str, &str)| ((*x).to_owned(), (*width).to_owned());
        places.iter().map(owned).collect()
    }

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

    #[test]
    fn less_is_on_the_left_of_the_middle_and_more_on_the_right() {
        let bars = bars(Length::Signed, &[10.0, -5.0]);
        let expected = [("500.00", "500.00"), ("250.00", "250.00")];
        assert_eq!(places(&bars), texts(&expected));
    }

    #[test]
    fn shares_of_small_rows_are_as_long_as_those_of_large_ones() {
        let bars = bars(Length::OwnShare, &[1e6, 1.0]);
        let whole = ("0.00", "1000.00");
        assert_eq!(places(&bars), texts(&[whole, whole]));
    }

    #[test]
    fn an_error_bar_is_inside_the_drawing() {
        let drawn = drawn(&bars(Length::Amount, &[90.0, 5.0]));
        let ends = |bar: &Drawn| {
            let error = bar.error.as_ref().unwrap();
            (error.low.clone(), error.high.clone())
        };
        assert_eq!(ends(&drawn[0]), ("800.00".to_owned(), "1000.00".to_owned()));
        assert_eq!(ends(&drawn[1]), ("0.00".to_owned(), "150.00".to_owned()));
    }
}
