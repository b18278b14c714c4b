//! `kvm_stat -l`, the class `StdFormat`.

use pagetoll_text::{ReadError, Stop, first_lines, lines};

use super::super::recorder::Recorder;
use super::{after_time, columns, is_name, is_of_kvm, row};

pub(super) fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes);
    let Some(first) = lines.next() else {
        return false;
    };
    let names_kvm = || first.split_whitespace().any(is_of_kvm);
    let is_sample = |row| after_time(row).is_some() || is_row(row) && names_kvm();
    is_banner(first) && lines.next().is_some_and(is_sample)
}

fn is_banner(line: &str) -> bool {
    line.split_whitespace().all(is_name)
}

fn is_row(line: &str) -> bool {
    after_time(line).is_some()
        || line
            .split_whitespace()
            .all(|word| word.parse::<i64>().is_ok())
}

pub(super) fn record(bytes: &[u8], recorder: &mut Recorder) -> Result<(), Stop> {
    let mut names: Option<Vec<&str>> = None;
    for line in lines(bytes) {
        let line = line?;
        let text = line.text.trim();
        if text.is_empty() {
            continue;
        }
        let is_row = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let is_of_counters = || names.is_none() || text.split_whitespace().any(is_of_kvm);
        if is_banner(text) && is_of_counters() {
            names = Some(columns(line.place, text.split_whitespace())?);
        } else if !is_row {
            recorder.leave_out(&line);
        } else if let Some(names) = &names {
            let numbers = after_time(text).unwrap_or(text);
            row(&line, names, numbers.split_whitespace(), recorder)?;
        } else {
            let expected = "the names of counters";
            return Err(ReadError::expected(line.place, "line", expected, line.text).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pagetoll_text::{Position, Truncated};
    use proptest::prelude::*;

    use super::super::super::Scope;
    use super::super::FORM;
    use super::*;
    use crate::Growth;

    fn read(bytes: &[u8]) -> Result<Growth, ReadError> {
        FORM.growth(bytes)
    }

    fn number(growth: &Growth, name: &str) -> Option<u64> {
        growth.by(&Scope::Host, name)
    }

    #[test]
    fn tables_with_and_without_times_are_read() {
        let table = "exits kvm_exit(EPT_VIOLATION) \n2026-11-26 00:41:41         3        4\n";
        assert!(is(table.as_bytes()));
        let timed = read(table.as_bytes()).unwrap();
        assert_eq!(number(&timed, "kvm_exit(EPT_VIOLATION)"), Some(4));

        let old = "exits pf_fixed \n         1          2 \n         3          4 \nexits \n   5\n";
        assert!(is(old.as_bytes()));
        let rows = read(old.as_bytes()).unwrap();
        assert_eq!(
            (number(&rows, "exits"), number(&rows, "pf_fixed")),
            (Some(9), Some(6))
        );
    }

    #[test]
    fn errors_name_line_and_counter() {
        let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error("exits pf_fixed \n  1  x\n"),
            "line 2: pf_fixed: expected a whole number below 2^63, found `x`"
        );
        assert_eq!(
            error("exits pf_fixed \n  1\n"),
            "line 2: counters: expected 2, found `1`"
        );
        assert_eq!(
            error("1 2\n"),
            "line 1: line: expected the names of counters, found `1 2`"
        );
        let cut = read(b"exits \n 1\n 12").unwrap();
        assert_eq!(
            (number(&cut, "exits"), cut.truncated),
            (Some(1), Some(Truncated::Ended(Position::Line(3))))
        );
    }

    #[test]
    fn prose_and_what_a_terminal_shows_are_left_out() {
        let text = "exits pf_fixed \n  1  2\n^C\nand then then\n  3  4\n";
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(number(&read, "exits"), Some(4));
        assert_eq!(read.left_out.lines, 2);
        let csv = "timestamp,exits\n2026-11-26 00:00:01,7\n^C\nThat is all\n";
        let read = FORM.growth(csv.as_bytes()).unwrap();
        assert_eq!((number(&read, "exits"), read.left_out.lines), (Some(7), 2));
    }

    proptest! {
        /// Text as `StdFormat` prints it.
        #[test]
        fn what_is_printed_is_read(
            names in prop::collection::btree_set("[a-z][a-z_]{0,9}", 1..6),
            rows in prop::collection::vec(prop::collection::vec(0..1_i64 << 40, 6), 1..9),
        ) {
            let mut text: String = names.iter().map(|name| format!("{name} ")).collect();
            for row in &rows {
                let numbers = row.iter().take(names.len()).map(|number| format!(" {number:9}"));
                text += &format!("\n2026-11-26 00:41:41{}", numbers.collect::<String>());
            }
            text.push('\n');
            let read = read(text.as_bytes()).unwrap();
            for (column, name) in names.iter().enumerate() {
                let sum: i64 = rows.iter().map(|row| row[column]).sum();
                prop_assert_eq!(number(&read, name), u64::try_from(sum).ok());
            }
        }
    }
}
