//! Parsers of the values of options.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pagetoll_render::{Format, Kind};

/// A format for results of a kind.
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
