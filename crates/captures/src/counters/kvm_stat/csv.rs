//! `kvm_stat -l -c`, `kvm_stat -L FILE -c`: the class `CSVFormat`.

use super::super::recorder::Recorder;
use super::{columns, row, time};
use crate::lines::lines;
use crate::position::{ReadError, Stop};

/// The first column.
const TIME: &str = "timestamp";

pub(super) fn is(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(TIME.as_bytes())
        .is_some_and(|rest| rest.starts_with(b","))
}

/// Fields are joined with commas, and nothing is quoted.
pub(super) fn record(bytes: &[u8], recorder: &mut Recorder<'_>) -> Result<(), Stop> {
    let mut names = Vec::new();
    for line in lines(bytes) {
        let line = line?;
        let mut fields = line.text.split(',');
        match fields.next() {
            Some("") if line.text.is_empty() => {}
            Some(TIME) => names = columns(line.place, fields)?,
            first => {
                let when = first.unwrap_or_default();
                let Some(when) = time(when) else {
                    let expected = "a time like 2026-11-26 00:41:41";
                    return Err(ReadError::expected(line.place, TIME, expected, when).into());
                };
                row(&line, &names, fields, Some(when), recorder)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::counters::{Scope, Time};
    use crate::position::{Position, Truncated};

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
            (1, Some(Truncated::Ended(Position::Line(4))))
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
