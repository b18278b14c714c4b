//! A row of `perf stat`: a count, a unit and an event, with what follows them.

use pagetoll_text::{Position, ReadError};

use super::number::{decimal, seconds, whole};

/// Where perf has no count of an event.
const NO_COUNTS: [&str; 2] = ["<not counted>", "<not supported>"];

/// A count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Count {
    Events(u64),
    Milliseconds(f64),
}

impl Count {
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Events(a), Self::Events(b)) => Self::Events(a.saturating_add(b)),
            (Self::Milliseconds(a), Self::Milliseconds(b)) => Self::Milliseconds(a + b),
            (first, _) => first,
        }
    }
}

/// A row.
#[derive(Debug, PartialEq)]
pub(super) struct Row<'a> {
    /// Seconds after the start, of `-I`.
    pub(super) from: Option<f64>,
    /// The count as it is printed.
    pub(super) value: &'a str,
    pub(super) unit: &'a str,
    pub(super) event: &'a str,
    /// The event did not run all the time: its count is an estimate.
    pub(super) is_scaled: bool,
}

impl Row<'_> {
    /// The count; `None` where perf has none, or another unit.
    pub(super) fn count(&self, place: Position) -> Result<Option<Count>, ReadError> {
        if NO_COUNTS.contains(&self.value) {
            return Ok(None);
        }
        let expected = |expected| ReadError::expected(place, self.event, expected, self.value);
        match self.unit {
            "" => match whole(self.value) {
                Some(count) => Ok(Some(Count::Events(count))),
                None => Err(expected(
                    "a whole number, in groups of three digits or in none",
                )),
            },
            "msec" => match decimal(self.value) {
                Some(time) => Ok(Some(Count::Milliseconds(time))),
                None => Err(expected("milliseconds")),
            },
            _ => Ok(None),
        }
    }
}

/// Reads a row, which begins with a time where it is of an interval.
pub(super) fn read(line: &str, of_intervals: bool) -> Option<Row<'_>> {
    let (from, rest) = match of_intervals {
        true => {
            let (from, rest) = line.trim_start().split_once(char::is_whitespace)?;
            (
                Some(seconds(from).filter(|_| from.contains(['.', ',']))?),
                rest.trim_start(),
            )
        }
        false => (None, line.trim_start()),
    };
    let (value, rest) = value(rest)?;
    let figures = rest.split("  #").next().unwrap_or_default();
    // `( +-  0.50% )` is the deviation of `-r`.
    let is_scaled = rest.trim_end().ends_with("%)");
    let mut words = figures.split_whitespace();
    let first = words.next()?;
    // Events without a sign in their names are cycles and the like, which no unit precedes.
    let is_unit = !first.contains(['-', ':', '/', '_']);
    let second = words.next().filter(|_| is_unit);
    let second = second.filter(|word| word.contains(['-', ':', '/', '_']));
    let (unit, event) = second.map_or(("", first), |event| (first, event));
    let is_event = |c: char| c.is_ascii_alphanumeric() || "_-:/=,.@{}".contains(c);
    let sound = event.starts_with(|c: char| c.is_ascii_alphabetic()) && event.chars().all(is_event);
    sound.then_some(Row {
        from,
        value,
        unit,
        event,
        is_scaled,
    })
}

/// The count at the beginning of a row, with groups that spaces separate, and the rest.
fn value(line: &str) -> Option<(&str, &str)> {
    for none in NO_COUNTS {
        if let Some(rest) = line.strip_prefix(none) {
            return Some((none, rest));
        }
    }
    let is_figure = |c: char| c.is_ascii_digit() || c.is_whitespace() || ",.'\u{2019}".contains(c);
    let end = line.find(|c| !is_figure(c))?;
    let (value, rest) = line.split_at(end);
    let is_apart = value.ends_with(char::is_whitespace);
    let value = value.trim_end();
    (is_apart && value.starts_with(|c: char| c.is_ascii_digit())).then_some((value, rest))
}

/// The option by which the rows of a line are parts of the whole: of a heading of `-I`, or of a row.
pub(super) fn parts(line: &str) -> Option<&'static str> {
    if let Some(heading) = line.strip_prefix('#') {
        let words: Vec<_> = heading.split_whitespace().take(4).collect();
        return match words.as_slice() {
            ["time", "counts", ..] | [] => None,
            ["time", "CPU", "counts", ..] => Some("--no-aggr"),
            ["time", "comm-pid", "counts", ..] => Some("--per-thread"),
            ["time", _, "cpus" | "counts", ..] => Some("--per-socket or another --per-"),
            _ => None,
        };
    }
    let mut rest = line.trim_start();
    // Before the part may be the time of an interval; the name of a thread may have spaces.
    for _ in 0..4 {
        let (word, behind) = rest.split_once(char::is_whitespace)?;
        rest = behind.trim_start();
        if let (Some(option), Some(row)) = (part(word), read(rest, false))
            && row.event.contains([':', '-'])
        {
            return Some(option);
        }
    }
    None
}

/// The option of which a row's first column is: `CPU3`, `S0`, `S0-D0-C1`, `N0`, `qemu-4711`.
pub(super) fn part(word: &str) -> Option<&'static str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = |prefix| word.strip_prefix(prefix).is_some_and(is_number);
    let of_socket = |word: &str| word.strip_prefix('S').is_some_and(is_number);
    let thread = word.rsplit_once('-').map(|(_, number)| number);
    match word.split_once('-') {
        None if numbered("CPU") => Some("--no-aggr"),
        None if numbered("N") => Some("--per-node"),
        None if of_socket(word) => Some("--per-socket"),
        Some((socket, _)) if of_socket(socket) => Some("--per-core or --per-die"),
        _ if thread.is_some_and(is_number) => Some("--per-thread"),
        _ => None,
    }
}

/// The refusal of such rows.
pub(super) fn refused(place: Position, option: &str) -> ReadError {
    let problem = format!("of {option}; expected counts of the whole: record without this option");
    ReadError::new(place, "rows", problem)
}
