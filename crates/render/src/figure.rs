//! How figures are written: always with the same number of decimals, whatever the locale.

use pagetoll_bill::{Bill, Interval, Row, Unit};

/// What stands where a figure cannot be.
pub(super) const NONE: &str = "-";

/// A cost: one decimal.
pub(super) fn cost(value: f64) -> String {
    format!("{value:.1}")
}

/// A count for each page: four decimals, so that one call for 512 pages can be told from none.
pub(super) fn count(value: f64) -> String {
    format!("{value:.4}")
}

/// A share: percent with one decimal; nothing of a whole that is nothing.
pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.1} %", 100.0 * part / whole)
    } else {
        NONE.to_owned()
    }
}

/// How `cost` compares with `reference`: `3.59x cheaper`.
pub(super) fn relation(cost: f64, reference: f64) -> String {
    if cost <= 0.0 || reference <= 0.0 {
        NONE.to_owned()
    } else if cost <= reference {
        format!("{:.2}x cheaper", reference / cost)
    } else {
        format!("{:.2}x dearer", cost / reference)
    }
}

/// By how much `cost` differs from `reference`: `+0.4 %`.
pub(super) fn change(cost: f64, reference: f64) -> String {
    if reference > 0.0 {
        format!("{:+.2} %", 100.0 * (cost - reference) / reference)
    } else {
        NONE.to_owned()
    }
}

/// A row's cost with its deviation or interval, where there is one.
pub(super) fn cost_of(row: &Row) -> String {
    match (row.cost_per_page, row.stddev, row.interval) {
        (Some(mean), Some(stddev), _) => format!("{} +- {}", cost(mean), cost(stddev)),
        (Some(median), None, Some(Interval { low, high })) => {
            format!("{} ({} to {})", cost(median), cost(low), cost(high))
        }
        (Some(mean), None, None) => cost(mean),
        (None, _, _) => NONE.to_owned(),
    }
}

/// The unit of a cost of one item, as short as a column's head has to be: `instr/page`.
pub(super) fn unit_per_item(bill: &Bill) -> String {
    per_item(unit(bill.unit), bill)
}

/// The unit of a cost, short.
pub(super) const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Instructions => "instr",
        Unit::Nanoseconds => "ns",
    }
}

/// Something of one item: `crossings/page`.
pub(super) fn per_item(what: &str, bill: &Bill) -> String {
    format!("{what}/{}", bill.route.item())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_told_from_the_readers_side() {
        assert_eq!(relation(500.0, 1825.0), "3.65x cheaper");
        assert_eq!(relation(1825.0, 500.0), "3.65x dearer");
        assert_eq!(relation(0.0, 500.0), NONE);
        assert_eq!(relation(5.0, 0.0), NONE);
    }

    #[test]
    fn figures_have_fixed_decimals() {
        assert_eq!(
            (cost(6.0), count(1.0 / 512.0)),
            ("6.0".into(), "0.0020".into())
        );
        assert_eq!(share(1.0, 3.0), "33.3 %");
        assert_eq!(share(1.0, 0.0), NONE);
        assert_eq!(change(100.4, 100.0), "+0.40 %");
        assert_eq!(change(1.0, 0.0), NONE);
    }
}
