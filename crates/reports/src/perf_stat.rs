//! Counts of `perf stat`: its summary, the rows of `-I`, and CSV (`-x`).
//!
//! A count may be grouped by a locale: `3,358,451`, `3.358.451`, `3 358 451`. It has no decimals where it has no unit:
//! `abs_printout` prints those of events whose scale is a fraction, which have one. Times (`msec`) are items of
//! [`Group::Times`]; other units are refused by name, and so are the rows of `--per-core` and the like, of which each
//! is a part. Rows of intervals are summed; of `-r` a row is the mean of all runs.
//!
//! CSV says how long a counter ran, summed over CPUs, and not for how long perf waited: it has no seconds.
//!
//! Source: `tools/perf/util/stat-display.c` of Linux 4.0 to 6.18.

mod csv;
mod number;
mod row;

use std::collections::BTreeMap;

use pagetoll_observation::{Capture, Group, Item, Observation, Tally};
use pagetoll_text::{Line, Position, ReadError, Stop, each_line, first_lines, is_closed};
use pagetoll_units::budget::in_tree;

use number::seconds;
use row::{Count, Row};

/// Lines above which counts begin at the latest.
const LINES: usize = 64;

const HEADING: &str = "Performance counter stats for ";
const ELAPSED: &str = "seconds time elapsed";
/// Nanoseconds of a millisecond.
const MILLISECOND: f64 = 1e6;

/// Recognises a heading, the heading of `-I`, CSV, or a row of an event of KVM.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES);
    lines.any(|line| {
        line.contains(HEADING)
            || is_heading_of_intervals(line)
            || csv::Csv::of(line).is_some()
            || row::read(line, false).is_some_and(|row| row.event.starts_with("kvm"))
    })
}

/// `#           time             counts unit events`.
fn is_heading_of_intervals(line: &str) -> bool {
    let mut words = line.trim_start_matches('#').split_whitespace();
    line.starts_with('#') && words.next() == Some("time") && words.any(|word| word == "counts")
}

/// Reads counts, those of each summary a party.
///
/// # Errors
/// [`ReadError`] with line and field.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let mut reader = Reader {
        tally: Tally::new(bytes.len()),
        csv: first_lines(bytes).take(LINES).find_map(csv::Csv::of),
        of_intervals: first_lines(bytes).take(LINES).any(is_heading_of_intervals),
        name: None,
        sums: BTreeMap::new(),
        names: BTreeMap::new(),
        interval: None,
        seconds: None,
        scaled: 0,
    };
    let whole = |line: &str| is_closed(line) || line.trim_end().ends_with(ELAPSED);
    let ended = each_line(bytes, whole, |line| reader.line(line));
    let ended = reader.end(Position::Line(1)).and(ended);
    reader
        .tally
        .finish(ended, is(bytes), "counts of perf stat", capture)
}

struct Reader {
    tally: Tally,
    csv: Option<csv::Csv>,
    of_intervals: bool,
    /// Whose the counts are.
    name: Option<String>,
    /// Sums by the order of rows in an interval, with the line of the first, and names.
    sums: BTreeMap<usize, (Position, Sum)>,
    /// Rows of the interval by name: an event may be counted twice, with two filters.
    names: BTreeMap<(String, u64), usize>,
    /// Start of the interval's rows, and rows of it by name.
    interval: Option<(f64, BTreeMap<String, u64>)>,
    seconds: Option<f64>,
    /// Counts of events that did not run all the time.
    scaled: u64,
}

#[derive(Debug)]
struct Sum {
    event: String,
    count: Option<Count>,
}

impl Reader {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let text = line.text.trim();
        let uncommented = text.trim_start_matches('#').trim_start();
        if let Some((_, whose)) = text.split_once(HEADING) {
            self.end(line.place)?;
            self.name = Some(whose.trim_end_matches(':').to_owned());
            self.of_intervals = false;
            return Ok(());
        }
        if let Some(elapsed) = uncommented.split_once(ELAPSED) {
            return self.elapsed(line.place, elapsed.0);
        }
        if let Some(option) = row::parts(text) {
            return Err(row::refused(line.place, option).into());
        }
        if text.is_empty() || is_beside(text) && row::read(uncommented, self.of_intervals).is_none()
        {
            return Ok(());
        }
        let row = match &self.csv {
            Some(csv) => csv.row(line.place, text)?,
            None => row::read(uncommented, self.of_intervals),
        };
        match row {
            Some(row) => self.row(line.place, row),
            None => {
                self.tally.pass_over(line.place, line.text);
                Ok(())
            }
        }
    }

    /// `10.001 seconds`, `10.001 +- 0.002 seconds`.
    fn elapsed(&mut self, place: Position, text: &str) -> Result<(), Stop> {
        let word = text.split_whitespace().next().unwrap_or_default();
        let Some(elapsed) = seconds(word) else {
            return Err(ReadError::expected(place, ELAPSED, "a number", text.trim()).into());
        };
        self.seconds = Some(elapsed);
        Ok(())
    }

    fn row(&mut self, place: Position, row: Row<'_>) -> Result<(), Stop> {
        if let Some(from) = row.from {
            let is_next = self.interval.as_ref().is_none_or(|(of, _)| *of != from);
            if is_next {
                self.interval = Some((from, BTreeMap::new()));
            }
            self.seconds = Some(from);
        }
        let count = row.count(place)?;
        let (_, seen) = self.interval.get_or_insert((0.0, BTreeMap::new()));
        if !seen.contains_key(row.event) {
            self.tally
                .keep(place, in_tree::<String, u64>() + row.event.len())?;
        }
        let seen = seen.entry(row.event.to_owned()).or_default();
        *seen += 1;
        self.scaled += u64::from(row.is_scaled);
        let key = (row.event.to_owned(), *seen);
        let index = match self.names.get(&key) {
            Some(index) => *index,
            None => {
                let memory = 2 * in_tree::<(String, u64), (usize, Sum)>() + 4 * key.0.len();
                self.tally.keep(place, memory)?;
                let index = self.names.len();
                self.names.insert(key, index);
                index
            }
        };
        let (_, sum) = self.sums.entry(index).or_insert_with(|| {
            let event = row.event.to_owned();
            (place, Sum { event, count: None })
        });
        sum.count = match (sum.count, count) {
            (Some(sum), Some(count)) => Some(sum.plus(count)),
            (sum, count) => sum.or(count),
        };
        if count.is_none() {
            let what = format!("({}: {} {})", row.event, row.value, row.unit);
            self.tally.note(place, &what, 1)?;
        }
        Ok(())
    }

    /// Ends the party, if it has rows.
    fn end(&mut self, place: Position) -> Result<(), Stop> {
        self.names.clear();
        self.interval = None;
        let sums = std::mem::take(&mut self.sums);
        let seconds = self.seconds.take();
        if self.scaled > 0 {
            let what = "(counts that perf estimated: the event did not run all the time)";
            self.tally
                .note(place, what, std::mem::take(&mut self.scaled))?;
        }
        let name = self.name.take().unwrap_or_else(|| "perf stat".to_owned());
        if sums.is_empty() {
            return Ok(());
        }
        let name = match name
            .rsplit_once(" (")
            .filter(|(_, runs)| runs.ends_with("runs)"))
        {
            Some((name, runs)) => format!("{name}, mean of {}", runs.trim_end_matches(')')),
            None => name,
        };
        self.tally.begin(place, name.replace('\'', ""))?;
        if let Some(party) = self.tally.party() {
            party.seconds = seconds;
        }
        for (place, sum) in sums.into_values() {
            if let Some(count) = sum.count {
                self.tally.add(place, count.item(&sum.event))?;
            }
        }
        Ok(())
    }
}

impl Count {
    fn item(self, event: &str) -> Item {
        match self {
            Self::Events(count) => Item::counted(Group::Counters, name(event), count),
            Self::Milliseconds(time) => Item {
                nanos: Some(nanos(time)),
                ..Item::counted(Group::Times, event, 1)
            },
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is positive and below 2^53 ns, and a cast saturates"
)]
fn nanos(milliseconds: f64) -> u64 {
    (milliseconds * MILLISECOND).round() as u64
}

/// Name of an event of KVM, as kvm_stat has it.
fn name(event: &str) -> &str {
    let of_kvm = event.strip_prefix("kvm:");
    of_kvm
        .or_else(|| event.strip_prefix("kvmmmu:"))
        .unwrap_or(event)
}

/// Lines that perf prints beside counts: comments, metrics, times of the process, the ends of rows that were wrapped, advice.
fn is_beside(line: &str) -> bool {
    let is_time = line.ends_with("seconds user") || line.ends_with("seconds sys");
    line.starts_with(['#', '(']) || is_time
}

#[cfg(test)]
mod tests;
