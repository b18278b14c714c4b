//! Published figures: results of others, one number an entry, with its source and the order that models it.

use std::sync::LazyLock;

use pagetoll_bill::{Magnitude, names};
use pagetoll_units::budget::check_text;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use toml::Spanned;

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
    /// Figures that stand and fall together, such as two times and their ratio: coverage counts a group as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The change of the model that was made knowing the figure; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// Order of the simulator whose result it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelOrder>,
    /// The line of the list that it begins in, from 1.
    #[serde(skip)]
    pub line: usize,
}

/// Orders of the simulator, and the part of their results that a figure is.
///
/// An order is the words after `pagetoll bill`. With `order`, a figure in `ns` is the cost of a row, one in
/// `pages-per-second` its rate. With `before` and `after`, one in `ratio` is the cost before over that after, one in
/// `ns` the saving. With `toll`, a figure in `ns` is the cost of one time, one in `share` how often a page pays it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOrder {
    /// The only order.
    pub order: Option<String>,
    /// The order whose result is compared with that of `after`.
    pub before: Option<String>,
    /// The order that `before` is compared with.
    pub after: Option<String>,
    /// Words of the row's name, as `--row` of `pagetoll diff` takes them; needed where an order has several rows.
    pub row: Option<String>,
    /// Words of the name of the row of `before`, where they are others.
    #[serde(rename = "row-before")]
    pub row_before: Option<String>,
    /// A toll of the row.
    pub toll: Option<String>,
    /// Key of the cost table whose figure is paid beside the row.
    pub beside: Option<String>,
}

/// The orders of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders<'a> {
    /// Its only order.
    One(&'a str),
    /// Before and after.
    Two(&'a str, &'a str),
}

impl ModelOrder {
    /// The orders, in the form that a figure of this unit has.
    ///
    /// # Errors
    /// The field that is missing or does not apply.
    pub fn orders(&self, unit: PublishedUnit) -> Result<Orders<'_>, String> {
        let orders = match (&self.order, &self.before, &self.after) {
            (Some(order), None, None) => Orders::One(order),
            (None, Some(before), Some(after)) => Orders::Two(before, after),
            _ => return Err("expected model.order, or model.before and model.after".to_owned()),
        };
        let has_toll = self.toll.is_some();
        let expected = match (unit, orders) {
            (PublishedUnit::Ratio, Orders::One(_)) => "a ratio is of model.before and model.after",
            (PublishedUnit::Share | PublishedUnit::PagesPerSecond, Orders::Two(..)) => {
                "model.before and model.after are for ratio or ns; expected model.order"
            }
            (PublishedUnit::Share, _) if !has_toll => "a share is of model.toll",
            (PublishedUnit::PagesPerSecond, _) if has_toll => {
                "model.toll is for share, ns or ratio"
            }
            _ => return Ok(orders),
        };
        Err(expected.to_owned())
    }
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
pub enum PublishedError {
    /// No TOML, or not of the form of `published/published.toml`.
    #[error("{file}: {source}")]
    Form {
        /// The list, as messages call it.
        file: String,
        /// Place and problem.
        source: Box<toml::de::Error>,
    },
    /// A figure that cannot be modelled as it says, or whose id another has.
    #[error("{file}:{line}: figure {id}: {problem}")]
    Figure {
        /// The list, as messages call it.
        file: String,
        /// The line that the figure begins in, from 1.
        line: usize,
        /// Id of the figure.
        id: String,
        /// Problem, and the expected form.
        problem: String,
    },
}

/// The list that comes with pagetoll.
static BUILT_IN: LazyLock<Vec<PublishedFigure>> = LazyLock::new(|| {
    let text = include_str!("../../../published/published.toml");
    PublishedFigure::list("published/published.toml", text)
        .unwrap_or_else(|error| unreachable!("{error}"))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    figure: Vec<Spanned<PublishedFigure>>,
}

impl PublishedFigure {
    /// The list that comes with pagetoll: `published/published.toml`. The ids of `fitted-to` are those of this list.
    #[must_use]
    pub fn built_in() -> &'static [Self] {
        &BUILT_IN
    }

    /// Reads a list in the form of `published/published.toml`. `file` is what it is called in messages.
    ///
    /// # Errors
    /// No TOML, not of that form, or two figures of one id: with the line.
    pub fn list(file: &str, text: &str) -> Result<Vec<Self>, PublishedError> {
        let form = |source| PublishedError::Form {
            file: file.to_owned(),
            source: Box::new(source),
        };
        check_text(text).map_err(|error| form(toml::de::Error::custom(error)))?;
        let list: List = toml::from_str(text).map_err(form)?;
        let figure = |entry: Spanned<Self>| Self {
            line: 1 + text[..entry.span().start].matches('\n').count(),
            ..entry.into_inner()
        };
        let figures: Vec<_> = list.figure.into_iter().map(figure).collect();
        figures
            .iter()
            .try_for_each(|one| one.check(&figures))
            .map_err(|(figure, problem)| figure.refused(file, problem))?;
        Ok(figures)
    }

    /// Checks a figure among those of its list.
    fn check<'a>(&'a self, all: &[Self]) -> Result<(), (&'a Self, String)> {
        let first = all.iter().find(|other| other.id == self.id);
        if let Some(first) = first.filter(|first| first.line < self.line) {
            return Err((self, format!("line {} has a figure of this id", first.line)));
        }
        let orders = self.model.as_ref().map(|model| model.orders(self.unit));
        orders.transpose().map_err(|problem| (self, problem))?;
        Ok(())
    }

    /// The refusal of this figure, of a list.
    #[must_use]
    pub fn refused(&self, file: &str, problem: String) -> PublishedError {
        PublishedError::Figure {
            file: file.to_owned(),
            line: self.line,
            id: self.id.clone(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_an_unknown_field_is_refused() {
        let entry = "[[figure]]\nid='a'\nquantity='q'\nvalue=2\nunit='ns'\nderived='d'\nsource='s'\nsystem='m'\n";
        let list = |text: &str| PublishedFigure::list("my.toml", text);
        assert_eq!(list(entry).unwrap()[0].value, 2.0);
        let error = list(&format!("{entry}colour='red'\n")).unwrap_err();
        assert!(error.to_string().contains("colour"));
        for value in ["0", "-2", "1.7e308", "nan", "inf"] {
            let entry = entry.replace("value=2", &format!("value={value}"));
            let error = list(&entry).unwrap_err().to_string();
            assert!(
                error.contains("value=") && error.contains("expected 1e-12 to 1e12"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_list_that_comes_along_is_read() {
        assert!(PublishedFigure::built_in().len() >= 49);
    }

    #[test]
    fn a_figure_that_cannot_be_modelled_is_refused_with_its_line() {
        let entry = |id: &str, unit: &str, model: &str| {
            format!(
                "[[figure]]\nid='{id}'\nquantity='q'\nvalue=2\nunit='{unit}'\nderived='d'\nsource='s'\nsystem='m'\n{model}\n"
            )
        };
        let good = entry("a", "ns", "model.order='pin'");
        let refused = |second: String| {
            let list = PublishedFigure::list("my.toml", &format!("# mine\n{good}{second}"));
            list.unwrap_err().to_string()
        };
        assert_eq!(
            refused(entry("a", "ns", "")),
            "my.toml:11: figure a: line 2 has a figure of this id"
        );
        let of = |unit: &str, model: &str| refused(entry("b", unit, model));
        for (unit, model, problem) in [
            ("ns", "model.row='map'", "expected model.order"),
            (
                "ns",
                "model.order='pin'\nmodel.after='pin'",
                "expected model.order, or model.before and",
            ),
            (
                "ratio",
                "model.order='pin'",
                "a ratio is of model.before and model.after",
            ),
            ("share", "model.order='flush'", "a share is of model.toll"),
            (
                "pages-per-second",
                "model.before='a'\nmodel.after='b'",
                "expected model.order",
            ),
            (
                "pages-per-second",
                "model.order='demand'\nmodel.toll='copy'",
                "model.toll is for share",
            ),
        ] {
            let error = of(unit, model);
            assert!(
                error.starts_with("my.toml:11: figure b: ") && error.contains(problem),
                "{error}"
            );
        }
    }
}
