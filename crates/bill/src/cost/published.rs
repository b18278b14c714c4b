//! Published figures: what others measured, one number an entry, with its source.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a published figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedUnit {
    /// Nanoseconds.
    Ns,
    /// Before over after.
    Ratio,
    /// A part of a whole, from 0 to 1.
    Share,
    /// Pages for each second.
    PagesPerSecond,
}

/// One published number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its name in reports and in host tables' `fitted-to`.
    pub id: String,
    /// What was measured.
    pub quantity: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: PublishedUnit,
    /// How the number follows from those in the source.
    pub derived: String,
    /// Who published it, where and when.
    pub source: String,
    /// On what, as far as the source says.
    pub system: String,
}

/// The list cannot be read.
#[derive(Debug, Error)]
#[error("the list of published figures: {0}")]
pub struct PublishedError(#[from] toml::de::Error);

#[derive(Deserialize)]
struct List {
    figure: Vec<Published>,
}

impl Published {
    /// Reads a list in the form of `published/published.toml`.
    ///
    /// # Errors
    /// No TOML, or not of that form.
    pub fn list(text: &str) -> Result<Vec<Self>, PublishedError> {
        Ok(toml::from_str::<List>(text)?.figure)
    }
}

/// How far a model is off, whichever way: 0 when it meets the figure, 1 when one is twice the other.
#[must_use]
pub fn error_of(modelled: f64, published: f64) -> f64 {
    (modelled / published).max(published / modelled) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_an_unknown_field_is_refused() {
        let entry = "[[figure]]\nid='a'\nquantity='q'\nvalue=2\nunit='ns'\nderived='d'\nsource='s'\nsystem='m'\n";
        assert_eq!(Published::list(entry).unwrap()[0].value, 2.0);
        let error = Published::list(&format!("{entry}colour='red'\n")).unwrap_err();
        assert!(error.to_string().contains("colour"));
    }

    #[test]
    fn twice_and_half_are_as_far_off() {
        assert_eq!(error_of(4.0, 2.0), 1.0);
        assert_eq!(error_of(2.0, 4.0), 1.0);
        assert_eq!(error_of(3.0, 3.0), 0.0);
    }
}
