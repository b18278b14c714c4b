//! From the text of a cost table to a [`CostTable`], or to the line that is wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_bill::{Magnitude, Unit};
use pagetoll_units::budget::check_text;
use serde::Deserialize;
use serde::de::Error as _;
use toml::Spanned;

use crate::error::CostError;
use crate::key::{self, CostKey, Dimension};
use crate::prices::ORDERED;
use crate::published::PublishedFigure;
use crate::{CostTable, Figure, Kind, Topology};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    name: String,
    summary: String,
    unit: Unit,
    #[serde(default)]
    stack: BTreeMap<String, String>,
    topology: Option<Topology>,
    figure: BTreeMap<Spanned<String>, RawFigure>,
}

/// Required fields are optional here, so that the error for a missing one has the figure's own line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    kind: Option<Kind>,
    #[serde(default, rename = "fitted-to")]
    fitted_to: Vec<Spanned<String>>,
    source: Option<String>,
    unit: Option<Spanned<String>>,
}

pub(super) fn table(file: &str, text: &str) -> Result<CostTable, CostError> {
    let short = check_text(text).map_err(toml::de::Error::custom);
    let raw: RawTable =
        short
            .and_then(|()| toml::from_str(text))
            .map_err(|error| CostError::Form {
                file: file.to_owned(),
                line: error.span().map_or(1, |span| line_of(text, &span)),
                problem: error.message().to_owned(),
            })?;
    if raw.topology.is_some_and(|topology| !topology.is_sound()) {
        return Err(CostError::Topology {
            file: file.to_owned(),
            most: Topology::MOST_CPUS,
        });
    }
    let mut figures = BTreeMap::new();
    for (name, figure) in raw.figure {
        let place = Place {
            file,
            text,
            line: line_of(text, &name.span()),
            key: name.get_ref(),
        };
        let key = place.key()?;
        figures.insert(key, place.figure(figure, key, raw.unit)?);
    }
    check_order(file, &figures)?;
    Ok(CostTable {
        name: raw.name,
        summary: raw.summary,
        unit: raw.unit,
        stack: raw.stack,
        topology: raw.topology,
        file: file.to_owned(),
        lines: text.lines().count(),
        figures,
    })
}

/// Rejects a figure that is smaller than a part of itself.
fn check_order(file: &str, figures: &BTreeMap<CostKey, Figure>) -> Result<(), CostError> {
    for (part, whole) in ORDERED {
        let (Some(least), Some(figure)) = (figures.get(&part), figures.get(&whole)) else {
            continue;
        };
        if figure.value < least.value {
            return Err(CostError::Figure {
                file: file.to_owned(),
                line: figure.line,
                key: whole.name().to_owned(),
                problem: format!(
                    "value {}; expected at least {}, the value of \"{part}\"",
                    figure.value, least.value
                ),
            });
        }
    }
    Ok(())
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    1 + before.matches('\n').count()
}

/// Position of a figure in a file.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    text: &'a str,
    line: usize,
    key: &'a str,
}

impl Place<'_> {
    fn key(self) -> Result<CostKey, CostError> {
        CostKey::named(self.key).ok_or_else(|| CostError::UnknownKey {
            file: self.file.to_owned(),
            line: self.line,
            key: self.key.to_owned(),
            expected: format!("one like {}", CostKey::nearest(self.key).join(", ")),
        })
    }

    fn bad(self, problem: impl Into<String>) -> CostError {
        CostError::Figure {
            file: self.file.to_owned(),
            line: self.line,
            key: self.key.to_owned(),
            problem: problem.into(),
        }
    }

    /// The ids of published results that a figure was fitted to: each is in the list.
    fn fitted_to(self, ids: Vec<Spanned<String>>) -> Result<Vec<String>, CostError> {
        let all = || {
            PublishedFigure::built_in()
                .iter()
                .map(|one| one.id.as_str())
        };
        let checked = ids.into_iter().map(|id| {
            let line = line_of(self.text, &id.span());
            let id = id.into_inner();
            if all().any(|known| known == id) {
                return Ok(id);
            }
            let nearest = key::nearest(&id, all()).join(", ");
            Err(Self { line, ..self }.bad(format!(
                "fitted-to \"{id}\": unknown published result; expected one like {nearest}"
            )))
        });
        checked.collect()
    }

    fn figure(self, raw: RawFigure, key: CostKey, unit: Unit) -> Result<Figure, CostError> {
        let missing =
            |field: &str, expected: &str| self.bad(format!("no {field}; expected {expected}"));
        let number = "a number in the table's unit";
        let value = raw.value.ok_or_else(|| missing("value", number))?;
        let figure = Figure {
            value,
            low: raw.low.ok_or_else(|| missing("low", number))?,
            high: raw.high.ok_or_else(|| missing("high", number))?,
            kind: raw
                .kind
                .ok_or_else(|| missing("kind", "measured, cited, fitted or assumed"))?,
            fitted_to: self.fitted_to(raw.fitted_to)?,
            source: raw.source.unwrap_or_default(),
            line: self.line,
        };
        if let Some(stated) = raw.unit {
            let stated = stated.get_ref();
            let expected = match key.dimension() {
                Dimension::Cost => unit.name(),
                Dimension::Number => "number",
            };
            if stated != expected {
                return Err(self.bad(format!("unit \"{stated}\"; expected \"{expected}\"")));
            }
        }
        self.check(&figure)?;
        Ok(figure)
    }

    fn check(self, figure: &Figure) -> Result<(), CostError> {
        let Figure {
            value, low, high, ..
        } = *figure;
        let costs = Magnitude::OF_COSTS;
        if [value, low, high].iter().any(|number| !costs.has(*number)) || low < 0.0 {
            return Err(self.bad(format!(
                "value {value:?}, low {low:?}, high {high:?}; expected numbers that are not negative: 0, or {costs}"
            )));
        }
        if low > value || value > high {
            return Err(self.bad(format!(
                "value {value} is not between low {low} and high {high}"
            )));
        }
        if figure.source.trim().is_empty() {
            return Err(self.bad("no source; expected where the figure comes from"));
        }
        match (figure.kind, figure.fitted_to.is_empty()) {
            (Kind::Fitted, true) => Err(self.bad(
                "no fitted-to; expected the ids of the published results that it was fitted to",
            )),
            (Kind::Measured | Kind::Cited | Kind::Assumed, false) => {
                Err(self.bad("fitted-to is given; expected kind = \"fitted\""))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"desk\"\nsummary = \"a desk\"\nunit = \"nanoseconds\"\n\n";

    fn desk(figure: &str) -> Result<CostTable, CostError> {
        table("desk.toml", &format!("{HEAD}{figure}"))
    }

    fn refused(figure: &str) -> String {
        desk(figure).unwrap_err().to_string()
    }

    const GOOD: &str = "[figure.\"hypercall.entry\"]\nvalue = 150.0\nlow = 100\nhigh = 300\nkind = \"assumed\"\nsource = \"a guess\"\n";

    #[test]
    fn a_table_is_read_with_the_lines_of_its_figures() {
        let costs = desk(GOOD).unwrap();
        let figure = costs.figure(CostKey::HYPERCALL_ENTRY).unwrap();
        assert_eq!(
            (figure.value, figure.low, figure.high),
            (150.0, 100.0, 300.0)
        );
        assert_eq!((figure.kind, figure.line), (Kind::Assumed, 5));
        assert_eq!(costs.unit, Unit::Nanoseconds);
    }

    #[test]
    fn what_a_route_needs_and_the_table_lacks_is_named() {
        let error = desk(GOOD).unwrap().figure(CostKey::PTWR_XCHG).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("desk.toml:10: no figure \"ptwr.xchg\""),
            "{text}"
        );
        assert!(text.contains("64-bit xchg"), "{text}");
    }

    #[test]
    fn each_error_names_file_line_key_and_what_was_expected() {
        let with = |from: &str, to: &str| refused(&GOOD.replace(from, to));
        let unknown = with("hypercall.entry", "hypercall.entrance");
        assert!(
            unknown.starts_with("desk.toml:5: figure \"hypercall.entrance\": unknown cost key")
        );
        assert!(
            unknown.contains("expected one like hypercall.entry"),
            "{unknown}"
        );
        let at = "desk.toml:5: figure \"hypercall.entry\": ";
        let cases = [
            (
                with("source = \"a guess\"\n", ""),
                "no source; expected where",
            ),
            (with("a guess", "  "), "no source; expected where"),
            (
                with("low = 100", "low = -1"),
                "value 150.0, low -1.0, high 300.0; expected numbers that are not negative: 0, or 1e-12 to 1e12",
            ),
            (
                with("high = 300", "high = 1.7e308"),
                "value 150.0, low 100.0, high 1.7e308; expected",
            ),
            (
                with("value = 150.0", "value = 1e-13"),
                "value 1e-13, low 100.0, high 300.0; expected",
            ),
            (
                with("low = 100", "low = 200"),
                "value 150 is not between low 200 and high 300",
            ),
            (
                with("high = 300", "high = 120"),
                "value 150 is not between low 100 and high 120",
            ),
            (with("value = 150.0", "value = nan"), "value NaN, low 100.0"),
            (
                with("kind = \"assumed\"\n", ""),
                "no kind; expected measured, cited, fitted or assumed",
            ),
            (with("assumed", "fitted"), "no fitted-to; expected the ids"),
            (
                with("low = 100", "low = 100\nunit = \"instructions\""),
                "unit \"instructions\"; expected \"nanoseconds\"",
            ),
            (
                with("low = 100\n", ""),
                "no low; expected a number in the table's unit",
            ),
        ];
        for (text, expected) in cases {
            assert!(text.starts_with(&format!("{at}{expected}")), "{text}");
        }
    }

    #[test]
    fn a_figure_is_fitted_to_results_that_were_published() {
        let fitted = |id: &str| {
            let kind = format!("kind = \"fitted\"\nfitted-to = [\"{id}\"]");
            desk(&GOOD.replace("kind = \"assumed\"", &kind))
        };
        assert!(
            fitted("demand.uffd.1")
                .unwrap()
                .is_fitted_to("demand.uffd.1")
        );
        let rejected = fitted("demand.ufd.1").unwrap_err().to_string();
        assert_eq!(
            rejected,
            "desk.toml:10: figure \"hypercall.entry\": fitted-to \"demand.ufd.1\": unknown published result; \
             expected one like demand.uffd.1, demand.uffd.2, demand.uffd.4"
        );
    }

    #[test]
    fn a_hold_that_is_shorter_than_its_part_is_rejected() {
        let figure = |key: &str| GOOD.replace("hypercall.entry", key);
        let on = figure("flush.hold.pge-on").replace("150.0", "140");
        let rejected = desk(&format!("{on}{}", figure("flush.hold.pge-off"))).unwrap_err();
        assert_eq!(
            rejected.to_string(),
            "desk.toml:5: figure \"flush.hold.pge-on\": value 140; expected at least 150, the value of \
             \"flush.hold.pge-off\""
        );
    }

    #[test]
    fn a_topology_is_read_and_one_without_cpus_is_refused() {
        let with = |threads: u32| {
            let topology =
                format!("[topology]\nsockets = 1\nl3-groups = 2\ncores = 4\nthreads = {threads}\n");
            desk(&format!("{topology}{GOOD}"))
        };
        assert_eq!(with(2).unwrap().topology().unwrap().cpus(), 16);
        let refused = with(0).unwrap_err().to_string();
        assert!(
            refused.starts_with("desk.toml: [topology]: expected sockets"),
            "{refused}"
        );
        let lacking = desk(GOOD).unwrap().topology().unwrap_err().to_string();
        assert!(
            lacking.starts_with("desk.toml:10: no [topology]"),
            "{lacking}"
        );
    }

    #[test]
    fn a_malformed_table_is_rejected_with_its_line() {
        let cases = [
            ("name = \"x\"\nsummary 3\n", ":2: "),
            (
                "name = \"x\"\nsummary = \"x\"\nunit = \"cycles\"\n[figure]\n",
                ":3: unknown variant `cycles`",
            ),
            (
                "name = \"x\"\nsummary = \"x\"\nunit = \"instructions\"\ncolour = 1\n[figure]\n",
                ":4: unknown field `colour`",
            ),
            (
                &format!("{HEAD}{}", GOOD.replace("low = 100", "lowest = 100")),
                ":7: unknown field `lowest`",
            ),
            (&format!("{HEAD}{GOOD}{GOOD}"), ":11: duplicate key"),
            (
                &format!("{HEAD}{}", GOOD.replace("\"assumed\"", "\"guessed\"")),
                ":9: unknown variant `guessed`",
            ),
        ];
        for (text, expected) in cases {
            let error = table("t.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("t.toml{expected}")), "{error}");
        }
    }
}
