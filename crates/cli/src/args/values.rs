//! How values of options are parsed: names from the tables, numbers, seconds.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pagetoll_bill::names::UnknownName;
use pagetoll_render::{Format, Kind};

/// One of the names of a table, each with its meaning in the long help.
pub(super) fn named<T>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownName> + Copy + Debug + Send + Sync + 'static,
{
    let values = all
        .iter()
        .map(move |&one| PossibleValue::new(name(one)).help(meaning(one)));
    PossibleValuesParser::new(values).try_map(|text| text.parse::<T>())
}

/// One of the formats that results of a kind can be written in.
pub(super) fn format(kind: Kind) -> impl TypedValueParser<Value = Format> {
    let values = Format::for_kind(kind).map(|format| PossibleValue::new(format.name()));
    PossibleValuesParser::new(values).try_map(|text| text.parse::<Format>())
}

/// A share of a whole, in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let parsed = text
        .parse()
        .ok()
        .filter(|value| (0.0..=100.0).contains(value));
    parsed.ok_or_else(|| "expected a number from 0 to 100".to_owned())
}

/// A whole number. Whether it is in range is the backend's to judge, with the range in its message.
pub(super) fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "expected a whole number from 1".to_owned())
}

/// The longest timeout: an hour.
const MOST_SECONDS: u64 = 3600;

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|n| (1..=MOST_SECONDS).contains(n));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_SECONDS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused_with_what_was_expected() {
        for text in ["", "1e99", "0x10", "-1", "4294967296"] {
            assert_eq!(
                number::<u32>(text),
                Err("expected a whole number from 1".into())
            );
        }
        assert_eq!(number::<u32>("513"), Ok(513));
        assert!(seconds("0").is_err() && seconds("3601").is_err());
    }
}
