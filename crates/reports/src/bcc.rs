//! Histograms of bcc's tools, such as `funclatency vfio_pin_pages_remote`.
//!
//! ```text
//! Function = vfio_pin_pages_remote
//!      usecs               : count     distribution
//!          4 -> 7          : 12       |*************                           |
//!          8 -> 15         : 37       |****************************************|
//! ```
//!
//! A histogram is a map by the line before it, where that has `=`; its name is the heading's, which is its unit. What is printed each
//! interval is kept as it was printed last. Other lines are passed over and counted.
//!
//! Source: `_print_log2_hist` and `_print_linear_hist` of `src/python/bcc/table.py`, bcc 0.5 to 0.31; `trace_helpers.c` of libbpf-tools.

use pagetoll_observation::{Capture, Observation};
use pagetoll_text::{Position, ReadError, Stop, Truncated, first_lines, lines};
use pagetoll_units::budget::{Budget, first_tree_node, in_tree};

use super::bpftrace::{Bucket, MAX_BUCKETS, MapValue, Output, REPORTED, Values, memory};

/// Recognises a text by the heading of a histogram.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    first_lines(bytes).any(|line| heading(line).is_some())
}

/// Reads what a tool has printed, the histograms of each heading a party.
///
/// # Errors
/// [`ReadError`] where there is no histogram, or one with more ranges than any tool prints.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    Ok(super::bpftrace::observed(capture, read(bytes)?))
}

/// Reads what a tool has printed.
///
/// # Errors
/// [`ReadError`] where there is no histogram, or one with more ranges than any tool prints.
pub(crate) fn read(bytes: &[u8]) -> Result<Output, ReadError> {
    let mut reader = Reader {
        output: Output::default(),
        budget: Budget::new(bytes.len()),
        section: String::new(),
        open: None,
    };
    let ended = reader.record(bytes);
    let problem = "none; expected rows such as `4 -> 7 : 12 |***|`";
    reader.output.finish(ended, "histogram", problem)
}

struct Reader {
    output: Output,
    budget: Budget,
    /// The last line with `=`.
    section: String,
    open: Option<(String, Vec<Bucket>)>,
}

impl Reader {
    fn record(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        for line in lines(bytes) {
            let line = match line {
                Ok(line) => line,
                Err(stop) => {
                    self.finish(Position::Byte(bytes.len()))?;
                    return Err(stop);
                }
            };
            self.line(line.place, line.text.trim())?;
        }
        self.finish(Position::Byte(bytes.len()))
    }

    fn line(&mut self, place: Position, line: &str) -> Result<(), Stop> {
        if let Some(unit) = heading(line) {
            self.finish(place)?;
            self.open = Some((unit.to_owned(), Vec::new()));
            return Ok(());
        }
        if let (Some((unit, buckets)), Some(bucket)) = (&mut self.open, row(line)) {
            if buckets.len() == MAX_BUCKETS {
                let expected = format!("at most {MAX_BUCKETS} ranges");
                return Err(ReadError::expected(place, unit.as_str(), &expected, "more").into());
            }
            buckets.push(bucket);
            return Ok(());
        }
        // A bar that a mailer wrapped.
        if line
            .bytes()
            .all(|byte| matches!(byte, b'*' | b' ' | b'|' | b'+'))
        {
            return Ok(());
        }
        self.finish(place)?;
        match line.split_once(" = ") {
            Some((_, section)) if !section.contains(", ") => section.clone_into(&mut self.section),
            _ => self.output.left_out.add(place, line),
        }
        Ok(())
    }

    fn finish(&mut self, place: Position) -> Result<(), Stop> {
        let Some((unit, buckets)) = self.open.take() else {
            return Ok(());
        };
        let key = std::mem::take(&mut self.section);
        let value = MapValue::Histogram(buckets);
        let mut taken = memory(&key, &value);
        if !self.output.maps.contains_key(&unit) {
            taken += in_tree::<String, Values>() + first_tree_node::<String, MapValue>();
            taken += REPORTED + 2 * unit.len();
        }
        let kept = self.budget.take(taken);
        kept.ok_or(Truncated::TooLarge(place))?;
        let map = self.output.maps.entry(unit).or_default();
        if let Some(before) = map.insert(key.clone(), value) {
            self.budget.give_back(memory(&key, &before));
            self.output.replaced += 1;
        }
        Ok(())
    }
}

/// `usecs               : count     distribution`.
fn heading(line: &str) -> Option<&str> {
    let (unit, rest) = line.trim().split_once(':')?;
    let is_heading = rest.split_whitespace().eq(["count", "distribution"]);
    let unit = unit.trim();
    (is_heading && !unit.is_empty() && !unit.contains(char::is_whitespace)).then_some(unit)
}

/// `4 -> 7          : 12       |***|`, or one value, `4          : 12       |***|`.
fn row(line: &str) -> Option<Bucket> {
    let (range, rest) = line.split_once(':')?;
    let count = rest.split('|').next()?.trim().parse().ok()?;
    let (min, max) = match range.split_once("->") {
        Some((min, max)) => (min.trim().parse().ok()?, max.trim().parse().ok()?),
        None => {
            let value = range.trim().parse().ok()?;
            (value, value)
        }
    };
    Some(Bucket {
        min: Some(min),
        max: Some(max),
        count,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn histograms_are_read_by_section() {
        let text = "Tracing 1 functions for \"vfio_pin_pages_remote\"... Hit Ctrl-C to end.\n\nFunction = vfio_pin_pages_remote\n     usecs               : count     distribution\n         0 -> 1          : 0        |                    |\n         2 -> 3          : 12       |****                |\n\navg = 2 usecs, total: 24 usecs, count: 12\n";
        assert!(is(text.as_bytes()) && !is(b"a : count\n"));
        let output = read(text.as_bytes()).unwrap();
        let bucket = |min, max, count| Bucket {
            min: Some(min),
            max: Some(max),
            count,
        };
        let expected = MapValue::Histogram(vec![bucket(0, 1, 0), bucket(2, 3, 12)]);
        assert_eq!(output.maps["usecs"]["vfio_pin_pages_remote"], expected);
        assert_eq!(output.left_out.lines, 2);
        let first = output.left_out.first.map(|line| line.place());
        assert_eq!(first, Some(Position::Line(1)));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(counts in prop::collection::vec(0_u64..1_000_000, 1..40), wide in any::<bool>()) {
            let most = counts.iter().copied().max().unwrap_or(0).max(1);
            let mut text = "     nsecs               : count     distribution\n".to_owned();
            let mut expected = Vec::new();
            for (index, count) in counts.into_iter().enumerate() {
                let (min, max) = if index == 0 { (0, 1) } else { (1_i64 << index, (2 << index) - 1) };
                let bar = "*".repeat(usize::try_from(40 * count / most).unwrap());
                text += &match wide {
                    true => format!("{min:>20} -> {max:<20} : {count:<8} |{bar:<40}|\n"),
                    false => format!("{min:>10} -> {max:<10} : {count:<8} |{bar:<40}|\n"),
                };
                expected.push(Bucket { min: Some(min), max: Some(max), count });
            }
            let output = read(text.as_bytes()).unwrap();
            prop_assert_eq!(&output.maps["nsecs"][""], &MapValue::Histogram(expected));
        }
    }
}
