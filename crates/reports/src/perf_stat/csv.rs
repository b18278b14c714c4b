//! `perf stat -x SEPARATOR`: `[TIME,]COUNT,UNIT,EVENT[,VARIANCE%],RUN,SHARE[,METRIC,UNIT]`.

use pagetoll_text::{Position, ReadError};

use super::number::seconds;
use super::row::{self, Row};

/// Separators that are recognised.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// Fields that are looked at: a row has a dozen at most, of time, CPU, count, event and metric.
const MOST_FIELDS: usize = 16;

/// A form of CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Csv {
    separator: char,
    of_intervals: bool,
}

impl Csv {
    /// The form of a line of CSV.
    pub(super) fn of(line: &str) -> Option<Self> {
        SEPARATORS.into_iter().find_map(|separator| {
            let fields: Vec<_> = line.split(separator).map(str::trim).take(8).collect();
            let of_intervals = fields.first().is_some_and(|time| is_time(time));
            let fields = &fields[usize::from(of_intervals)..];
            let is_row = match fields {
                [part, rest @ ..] if row::part(part).is_some() => {
                    is_row(rest) || is_row(rest.get(1..).unwrap_or_default())
                }
                ["summary", rest @ ..] => is_row(rest),
                fields => is_row(fields),
            };
            is_row.then_some(Self {
                separator,
                of_intervals,
            })
        })
    }

    /// Reads a row; `None` where the line is none.
    pub(super) fn row<'a>(
        &self,
        place: Position,
        line: &'a str,
    ) -> Result<Option<Row<'a>>, ReadError> {
        let fields = line.split(self.separator).map(str::trim);
        let mut fields: Vec<_> = fields.take(MOST_FIELDS).collect();
        let mut from = None;
        if self.of_intervals && fields.first().is_some_and(|time| is_time(time)) {
            from = seconds(fields.remove(0));
        }
        if fields.first() == Some(&"summary") {
            fields.remove(0);
        }
        if let Some(option) = fields.first().and_then(|part| row::part(part)) {
            return Err(row::refused(place, option));
        }
        if !is_row(&fields) || self.of_intervals && from.is_none() {
            return Ok(None);
        }
        let [value, unit, event, rest @ ..] = fields.as_slice() else {
            return Ok(None);
        };
        let share = rest.iter().skip_while(|field| !is_run(field)).nth(1);
        let is_scaled = share
            .and_then(|share| seconds(share))
            .is_some_and(|share| share < 100.0);
        let is_count = !value.starts_with('<');
        Ok(Some(Row {
            from,
            value,
            unit,
            event,
            is_scaled: is_scaled && is_count,
        }))
    }
}

/// `1.000123456`.
fn is_time(text: &str) -> bool {
    let decimals = text
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    decimals == 9 && seconds(text).is_some()
}

/// A count, a unit or none, an event, and how long it ran; a variance or a cgroup may stand before that.
fn is_row(fields: &[&str]) -> bool {
    let [value, unit, event, rest @ ..] = fields else {
        return false;
    };
    let is_count = value.starts_with('<') || seconds(value).is_some();
    let is_unit = !unit.starts_with(|c: char| c.is_ascii_digit());
    let is_event = event.starts_with(|c: char| c.is_ascii_alphabetic());
    is_count && is_unit && is_event && rest.iter().take(3).any(|field| is_run(field))
}

fn is_run(field: &str) -> bool {
    !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit())
}
