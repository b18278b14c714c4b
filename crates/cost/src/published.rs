//! PublishedFigure figures: results of others, one number an entry, with its source.

use std::sync::LazyLock;

use pagetoll_bill::{Magnitude, names};
use pagetoll_units::budget::check_text;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

names! {
    /// Unit of a published figure.
    pub enum PublishedUnit as "unit" {
        /// Nanoseconds of each page or operation.
        Ns,
        /// Cost before the fix over cost after it.
        Ratio,
        /// A part of a whole, from 0 to 1.
        Share,
        /// Pages for each second.
        PagesPerSecond,
    }
}

/// A measurement that others published, with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// Name in reports and in cost tables' `fitted-to`.
    pub id: String,
    /// The quantity, in the words of the source.
    pub quantity: String,
    /// In `unit`, and more than 0.
    #[serde(deserialize_with = "positive")]
    pub value: f64,
    /// Unit of `value`.
    pub unit: PublishedUnit,
    /// Derivation of the number from those in the source.
    pub derived: String,
    /// Authors, place and date.
    pub source: String,
    /// System that was measured, as far as the source says.
    pub system: String,
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if value > 0.0 && Magnitude::OF_COSTS.has(value) {
        return Ok(value);
    }
    let expected = Magnitude::OF_COSTS.to_string();
    Err(D::Error::invalid_value(
        Unexpected::Float(value),
        &expected.as_str(),
    ))
}

/// The list cannot be read.
#[derive(Debug, Error)]
#[error("the list of published figures: {0}")]
pub struct PublishedError(#[from] toml::de::Error);

/// The list that comes with pagetoll.
static BUILT_IN: LazyLock<Vec<PublishedFigure>> = LazyLock::new(|| {
    let text = include_str!("../../../published/published.toml");
    PublishedFigure::list(text).unwrap_or_else(|error| unreachable!("published.toml: {error}"))
});

#[derive(Deserialize)]
struct List {
    figure: Vec<PublishedFigure>,
}

impl PublishedFigure {
    /// The list that comes with pagetoll: `published/published.toml`. The ids of `fitted-to` are those of this list.
    #[must_use]
    pub fn built_in() -> &'static [Self] {
        &BUILT_IN
    }

    /// Reads a list in the form of `published/published.toml`.
    ///
    /// # Errors
    /// No TOML, or not of that form.
    pub fn list(text: &str) -> Result<Vec<Self>, PublishedError> {
        check_text(text).map_err(toml::de::Error::custom)?;
        Ok(toml::from_str::<List>(text)?.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_an_unknown_field_is_refused() {
        let entry = "[[figure]]\nid='a'\nquantity='q'\nvalue=2\nunit='ns'\nderived='d'\nsource='s'\nsystem='m'\n";
        assert_eq!(PublishedFigure::list(entry).unwrap()[0].value, 2.0);
        let error = PublishedFigure::list(&format!("{entry}colour='red'\n")).unwrap_err();
        assert!(error.to_string().contains("colour"));
        for value in ["0", "-2", "1.7e308", "nan", "inf"] {
            let entry = entry.replace("value=2", &format!("value={value}"));
            let error = PublishedFigure::list(&entry).unwrap_err().to_string();
            assert!(
                error.contains("value=") && error.contains("expected 1e-12 to 1e12"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_list_that_comes_along_is_read_and_no_two_results_share_an_id() {
        let mut ids: Vec<_> = PublishedFigure::built_in()
            .iter()
            .map(|one| &one.id)
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(all > 0 && ids.len() == all);
    }
}
