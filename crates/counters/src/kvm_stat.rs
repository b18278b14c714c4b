//! Output of Linux's kvm_stat: `-l` a table, `-l -c` CSV, and what the module `screen` reads; of debugfs, of
//! tracepoints, or both.
//!
//! Numbers of a log are what was counted in each interval, so they are `Counter::Change`s of all VMs
//! together, or of the one that was ordered, which the text does not say.
//!
//! Under lockdown the kernel refuses the files of debugfs that count up: kvm_stat shows 0 for them.
//!
//! Source: `tools/kvm/kvm_stat/kvm_stat` of Linux 4.19 to 7.3; before 5.8 tables have no times, and no CSV.

mod csv;
pub(crate) mod screen;
mod table;

use pagetoll_observation::{Capture, Observation};
use pagetoll_text::{Line, Position, ReadError, Stop};

use super::recorder::Recorder;
use super::{Counter, Form, Scope};

const FORM: Form = Form {
    is: is_log,
    record,
    expected: "a table or CSV of kvm_stat",
};

/// Columns that a table has at most: KVM has some hundred counters, and a tracepoint a column for each value of its field.
const MAX_COLUMNS: usize = 1 << 14;

/// Recognises a file by its beginning.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    is_log(bytes) || screen::is(bytes)
}

/// Recognises a log, which has samples of intervals.
fn is_log(bytes: &[u8]) -> bool {
    csv::is(bytes) || table::is(bytes)
}

/// Reads a log, or a screen.
///
/// # Errors
/// [`ReadError`], where the file is neither.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    match is_log(bytes) {
        true => FORM.observe(bytes, capture),
        false => screen::read(bytes, capture),
    }
}

/// Records a table or CSV: a sample for each interval.
fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    match csv::is(bytes) {
        true => csv::record(bytes, recorder),
        false => table::record(bytes, recorder),
    }
}

/// Records a row: a number for each column.
fn row<'a>(
    line: &Line<'_>,
    names: &[&str],
    numbers: impl Iterator<Item = &'a str> + Clone,
    recorder: &mut Recorder,
) -> Result<(), Stop> {
    let found = numbers.clone().count();
    if found != names.len() {
        let expected = names.len().to_string();
        return Err(
            ReadError::expected(line.place, "counters", &expected, &found.to_string()).into(),
        );
    }
    for (name, text) in names.iter().zip(numbers) {
        let change = change(line.place, name, text)?;
        recorder.add(line.place, &Scope::Host, name, change)?;
    }
    Ok(())
}

const TIME_LENGTH: usize = "2026-11-26 00:41:41".len();

/// The text behind a time, `2026-11-26 00:41:41`, where it begins with one.
fn after_time(text: &str) -> Option<&str> {
    let (time, rest) = text.split_at_checked(TIME_LENGTH)?;
    let time = humantime::parse_rfc3339_weak(time).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(rest)
}

/// Change of a counter in an interval.
fn change(place: Position, name: &str, text: &str) -> Result<Counter, ReadError> {
    let change = text
        .parse()
        .map_err(|_| ReadError::expected(place, name, "a whole number below 2^63", text))?;
    Ok(Counter::Change(change))
}

/// The names of a table's columns. A name that is there twice would make a sample of its own.
fn columns<'a>(
    place: Position,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<&'a str>, Stop> {
    let mut columns = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for name in names {
        if !is_name(name) || !known.insert(name) {
            return Err(
                ReadError::expected(place, "column", "a counter's name, once", name).into(),
            );
        }
        if columns.len() == MAX_COLUMNS {
            let problem = format!("more than {MAX_COLUMNS}; expected the counters of kvm_stat");
            return Err(ReadError::new(place, "columns", problem).into());
        }
        columns.push(name);
    }
    Ok(columns)
}

/// True of a counter of KVM or one of its tracepoints: other texts have names beside numbers too.
fn is_of_kvm(name: &str) -> bool {
    is_name(name) && (name.starts_with("kvm_") || super::kind::kind_of(name).is_some())
}

/// A file of debugfs, or a tracepoint and the value of its field: `kvm_exit(EPT_VIOLATION)`.
fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "_-()<>./:#".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_of_the_calendar_since_1970() {
        assert_eq!(after_time("2026-11-26 00:41:41,0"), Some(",0"));
        assert_eq!(after_time("2026-11-26 00:41:44"), Some(""));
        for text in [
            "",
            "2026-11-26",
            "2026-13-26 00:41:41",
            "timestamp and so on",
        ] {
            assert_eq!(after_time(text), None, "{text}");
        }
    }
}
