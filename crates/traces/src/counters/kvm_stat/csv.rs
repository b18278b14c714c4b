//! `kvm_stat -l -c`, `kvm_stat -L FILE -c`: the class `CSVFormat`.

use csv::{ReaderBuilder, StringRecord};

use super::super::Scope;
use super::super::recorder::Recorder;
use super::{change, columns, time};
use crate::place::{Place, ReadError, Stop, Truncated};

/// The first column.
const TIME: &str = "timestamp";

pub(super) fn is(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(TIME.as_bytes())
        .is_some_and(|rest| rest.starts_with(b","))
}

pub(super) fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut rows = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes);
    let mut names = Vec::new();
    let mut row = StringRecord::new();
    while rows
        .read_record(&mut row)
        .map_err(|error| unreadable(&error))?
    {
        let place = place(row.position());
        let is_last = usize::try_from(rows.position().byte()).is_ok_and(|byte| byte >= bytes.len());
        if is_last && !bytes.ends_with(b"\n") {
            return Err(Truncated::Ended(place).into());
        }
        if row.get(0) == Some(TIME) {
            names = columns(place, row.iter().skip(1))?
                .iter()
                .map(ToString::to_string)
                .collect();
        } else {
            sample(place, &names, &row, recorder)?;
        }
    }
    Ok(())
}

fn sample(
    place: Place,
    names: &[String],
    row: &StringRecord,
    recorder: &mut Recorder,
) -> Result<(), Stop> {
    let when = row.get(0).unwrap_or_default();
    let Some(when) = time(when) else {
        return Err(
            ReadError::expected(place, TIME, "a time like 2026-11-26 00:41:41", when).into(),
        );
    };
    if row.len() != names.len() + 1 {
        let (expected, found) = (names.len().to_string(), (row.len() - 1).to_string());
        return Err(ReadError::expected(place, "counters", &expected, &found).into());
    }
    recorder.begin(Some(when));
    for (name, text) in names.iter().zip(row.iter().skip(1)) {
        recorder.add(place, &Scope::Host, name, change(place, name, text)?)?;
    }
    Ok(())
}

fn place(position: Option<&csv::Position>) -> Place {
    Place::Line(
        position
            .and_then(|position| usize::try_from(position.line()).ok())
            .unwrap_or(1),
    )
}

fn unreadable(error: &csv::Error) -> ReadError {
    ReadError::new(place(error.position()), "row", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::counters::Time;

    const LOG: &str = "timestamp,kvm_pio,pages_4k\n2026-11-26 00:41:41,8,-5\n\
                       timestamp,kvm_pio\n2026-11-26 00:41:44,3\n";

    #[test]
    fn a_row_is_a_sample_and_a_banner_changes_the_columns() {
        let read = read(LOG.as_bytes()).unwrap();
        let seen = read.samples.iter().map(|sample| {
            let number = |name| {
                sample
                    .get(&Scope::Host, name)
                    .and_then(crate::counters::Counter::number)
            };
            (sample.time, number("kvm_pio"), number("pages_4k"))
        });
        let first = (Some(Time(1_795_653_701)), Some(8), Some(-5));
        let second = (Some(Time(1_795_653_704)), Some(3), None);
        assert_eq!(seen.collect::<Vec<_>>(), [first, second]);
    }

    #[test]
    fn a_last_row_that_may_be_cut_is_left_out() {
        let cut = read(LOG.trim_end().as_bytes()).unwrap();
        assert_eq!(
            (cut.samples.len(), cut.truncated),
            (1, Some(Truncated::Ended(Place::Line(4))))
        );
    }

    #[test]
    fn errors_name_line_and_counter() {
        let error = |from, to| {
            read(LOG.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("44,3", "44,x"),
            "line 4: kvm_pio: expected a whole number below 2^63, found `x`"
        );
        assert_eq!(
            error("44,3", "44,3,4"),
            "line 4: counters: expected 1, found `2`"
        );
        assert_eq!(
            error("pages_4k", "kvm_pio"),
            "line 1: column: expected a counter's name, once, found `kvm_pio`"
        );
        assert!(
            error("2026-11-26 00:41:44", "now").starts_with("line 4: timestamp: expected a time")
        );
    }
}
