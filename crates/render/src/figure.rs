//! Figures as text: always with the same number of decimals, whatever the locale, and never as minus zero.

use pagetoll_bill::row::Interval;
use pagetoll_bill::{Bill, Figures, Row, Unit};

use crate::table::NONE;

/// A number with so many decimals. Without the sign where all its digits are 0: a sum of nothing is -0.0.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if is_zero(digits) => digits.to_owned(),
        _ => text,
    }
}

/// A difference, with its sign.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if is_zero(digits) => format!("+{digits}"),
        _ => text,
    }
}

fn is_zero(digits: &str) -> bool {
    digits.chars().all(|c| c == '0' || c == '.')
}

/// A cost: one decimal.
pub(crate) fn cost(value: f64) -> String {
    fixed(value, 1)
}

/// A number beside an axis: three digits and a prefix of the SI.
pub(crate) fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match scaled.abs() {
        size if size >= 100.0 || fixed(scaled, 2).ends_with(".00") => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    fixed(scaled, decimals) + prefix
}

/// A count for each page: four decimals, so that one call for 512 pages differs from none.
pub(crate) fn count(value: f64) -> String {
    fixed(value, 4)
}

/// A share: percent with one decimal; nothing of a whole that is nothing.
pub(crate) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        fixed(100.0 * part / whole, 1) + " %"
    } else {
        NONE.to_owned()
    }
}

/// A share between 0 and 1, as whole percent.
pub(crate) fn percent(share: f64) -> String {
    fixed(100.0 * share, 0) + " %"
}

/// Two figures compared; nothing where one of them is missing.
pub(crate) fn both(a: Option<f64>, b: Option<f64>, by: impl Fn(f64, f64) -> String) -> String {
    optional(a.zip(b).map(|(a, b)| by(a, b)))
}

/// By how much `new` differs from `old`: `+0.4 %`.
pub(crate) fn change(new: f64, old: f64, decimals: usize) -> String {
    if old > 0.0 {
        signed(100.0 * (new - old) / old, decimals) + " %"
    } else {
        NONE.to_owned()
    }
}

/// A number that some rows do not have.
pub(crate) fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// A row's cost with its deviation or interval; `none` of a row without figures, whose reason is in a section of its own.
pub(crate) fn cost_of(row: &Row) -> String {
    row.figures()
        .map_or_else(|| "none".to_owned(), cost_with_spread)
}

/// A cost with its deviation or interval.
pub(crate) fn cost_with_spread(figures: &Figures) -> String {
    let mean = figures.cost_per_page;
    // Below a tenth, one decimal says nothing.
    let decimals = if mean.abs() < 1.0 { 5 } else { 1 };
    let number = |value| fixed(value, decimals);
    match (figures.stddev, figures.interval) {
        (Some(stddev), _) => format!("{} +- {}", number(mean), number(stddev)),
        (None, Some(Interval { low, high })) => {
            format!("{} ({} to {})", number(mean), number(low), number(high))
        }
        (None, None) => number(mean),
    }
}

/// The unit of a cost of one item, as short as a column's title has to be: `instr/page`.
pub(crate) fn unit_per_item(bill: &Bill) -> String {
    per_item(unit(bill.unit), bill)
}

/// The unit of a cost, short.
pub(crate) const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Instructions => "instr",
        Unit::Nanoseconds => "ns",
    }
}

/// Something of one item: `crossings/page`.
pub(crate) fn per_item(what: &str, bill: &Bill) -> String {
    format!("{what}/{}", bill.route.item().one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_fixed_decimals_and_zero_has_no_sign() {
        assert_eq!(
            (cost(6.0), count(1.0 / 512.0)),
            ("6.0".into(), "0.0020".into())
        );
        assert_eq!(share(1.0, 3.0), "33.3 %");
        assert_eq!(share(1.0, 0.0), NONE);
        assert_eq!(change(100.4, 100.0, 2), "+0.40 %");
        assert_eq!(change(1.0, 0.0, 1), NONE);
        let nothing: f64 = [].iter().sum();
        assert_eq!(share(nothing, 1.0), "0.0 %");
        assert_eq!(change(99.9999, 100.0, 1), "+0.0 %");
        assert_eq!((cost(-0.04), cost(-0.06)), ("0.0".into(), "-0.1".into()));
    }

    #[test]
    fn numbers_of_an_axis_are_short() {
        let of = |values: &[f64]| values.iter().map(|value| short(*value)).collect::<Vec<_>>();
        assert_eq!(
            of(&[0.0, 0.25, 12.5, 1860.0, 25_000.0, 1.5e6, 2e9, -3.0]),
            ["0", "0.25", "12.5", "1860", "25k", "1.50M", "2G", "-3"]
        );
    }

    #[test]
    fn small_costs_have_more_decimals() {
        let of = |runs: &[f64]| cost_with_spread(&Figures::of_runs(runs.to_vec()).unwrap());
        assert_eq!(of(&[0.019_65]), "0.01965");
        assert_eq!(of(&[10.0, 10.0]), "10.0 (10.0 to 10.0)");
        let of_means = Figures {
            stddev: Some(0.2),
            interval: None,
            ..Figures::of_runs(vec![9.8, 10.2]).unwrap()
        };
        assert_eq!(cost_with_spread(&of_means), "10.0 +- 0.2");
    }
}
