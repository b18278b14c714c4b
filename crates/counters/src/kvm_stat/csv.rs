//! `kvm_stat -l -c`, `kvm_stat -L FILE -c`: the class `CSVFormat`.

use pagetoll_text::{ReadError, Stop, lines};

use super::super::recorder::Recorder;
use super::{after_time, columns, row};

/// The first column.
const TIME: &str = "timestamp";

pub(super) fn is(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(TIME.as_bytes())
        .is_some_and(|rest| rest.starts_with(b","))
}

/// Fields are joined with commas, and nothing is quoted.
pub(super) fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut names = Vec::new();
    for line in lines(bytes) {
        let line = line?;
        let mut fields = line.text.split(',');
        match fields.next() {
            Some("") if line.text.is_empty() => {}
            Some(TIME) => names = columns(line.place, fields)?,
            // `^C`, prose.
            Some(first)
                if !first.starts_with(|c: char| c.is_ascii_digit())
                    && fields.clone().count() != names.len() =>
            {
                recorder.leave_out(&line);
            }
            first => {
                let time = first.unwrap_or_default();
                if after_time(time).is_none() {
                    let expected = "a time like 2026-11-26 00:41:41";
                    return Err(ReadError::expected(line.place, TIME, expected, time).into());
                }
                row(&line, &names, fields, recorder)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pagetoll_text::{Position, ReadError, Truncated};

    use super::super::FORM;
    use crate::{Growth, Scope};

    const LOG: &str = "timestamp,kvm_pio,pages_4k\n2026-11-26 00:41:41,8,-5\n\
                       timestamp,kvm_pio\n2026-11-26 00:41:44,3\n";

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

    fn number(growth: &Growth, name: &str) -> Option<u64> {
        growth.by(&Scope::Host, name)
    }

    #[test]
    fn rows_are_summed_and_a_banner_changes_the_columns() {
        let read = read(LOG.replace("-5", "5").as_bytes()).unwrap();
        assert_eq!(number(&read, "kvm_pio"), Some(11));
        assert_eq!(number(&read, "pages_4k"), Some(5));
    }

    #[test]
    fn a_last_row_that_may_be_cut_is_left_out() {
        let cut = read(LOG.trim_end().as_bytes()).unwrap();
        assert_eq!(number(&cut, "kvm_pio"), Some(8));
        assert_eq!(number(&cut, "pages_4k"), None);
        assert_eq!(cut.truncated, Some(Truncated::Ended(Position::Line(4))));
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
