//! A place on an axis.

use std::cmp::Ordering;
use std::time::UNIX_EPOCH;

use serde::Serialize;

/// A place on an axis: `6.12.43`, `16`, `2026-01-01T00:00:00Z`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Text of the bill.
    pub name: String,
    /// The number, or the seconds since 1970; absent for versions, which only have an order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
}

impl Place {
    pub(super) const fn version(name: String) -> Self {
        Self { name, number: None }
    }

    pub(super) fn number(number: u32) -> Self {
        Self {
            name: number.to_string(),
            number: Some(f64::from(number)),
        }
    }

    /// `None` for what is no time: a bill without one.
    pub(super) fn date(when: &str) -> Option<Self> {
        let time = humantime::parse_rfc3339(when).ok()?;
        let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        Some(Self {
            name: when.to_owned(),
            number: Some(seconds),
        })
    }

    /// The order on one axis: of numbers, or of versions, by their numbers (`6.2` before `6.12`).
    #[must_use]
    pub fn cmp_on(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => natord::compare(&self.name, &other.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let mut versions = ["7.3.4", "6.12.43", "6.1.192", "6.2", "6.12.43 fix:none"];
        versions.sort_by(|a, b| {
            Place::version((*a).to_owned()).cmp_on(&Place::version((*b).to_owned()))
        });
        assert_eq!(
            versions,
            ["6.1.192", "6.2", "6.12.43", "6.12.43 fix:none", "7.3.4"]
        );
    }

    #[test]
    fn a_time_is_a_number_and_anything_else_is_no_time() {
        let place = Place::date("1970-01-02T00:00:00Z");
        assert_eq!(place.and_then(|place| place.number), Some(86_400.0));
        assert_eq!(Place::date(""), None);
    }
}
