//! Maps as bpftrace prints them without `-f json`.
//!
//! ```text
//! @exits[EPT_VIOLATION]: 120
//! @run: count 42, average 7, total 294
//! @pin_ms:
//! [0]                   89 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
//! [2K, 4K)               7 |@@@@                                                |
//! @[
//!     handle_ept_violation+5
//!     vmx_handle_exit+17
//! ]: 12
//! ```
//!
//! The last print of a map that is printed each interval is kept; earlier ones are counted. What a script prints itself looks like any
//! text: it is passed over and counted.
//!
//! Source: `TextOutput` of `src/output.cpp` and, since 0.24, of `src/output/text.cpp`; bpftrace 0.9 to 0.26.

use pagetoll_observation::{Capture, Observation};
use pagetoll_text::{Position, ReadError, Stop, Truncated, first_lines};
use pagetoll_units::budget::{Budget, first_tree_node, in_tree};

use super::value::{self, Bucket, MAX_BUCKETS, MapValue, one_line};
use super::{Output, REPORTED, Values};

/// Bytes of a key over several lines: stacks have at most 1024 frames, and hostile files end somewhere.
const MAX_KEY_BYTES: usize = 64 << 10;

/// Recognises a text that begins with a map of numbers or histograms, or says how many probes were attached.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let first = first_lines(bytes).next().map(typed).unwrap_or_default();
    if !first.starts_with('@') && attached(first).is_none() {
        return false;
    }
    let mut before_is_head = false;
    first_lines(bytes).any(|line| {
        let line = typed(line);
        let entry = Entry::read(line);
        let is_value = |entry: &Entry<'_>| !matches!(value(entry.value), MapValue::Other(_));
        let found = attached(line).is_some()
            || entry.as_ref().is_some_and(is_value)
            || before_is_head && bucket(line).is_some()
            || before_is_head && line == "]:"
            || before_is_head
                && line
                    .strip_prefix("]: ")
                    .is_some_and(|text| number(text).is_some());
        before_is_head = match line.strip_prefix('@') {
            Some(_) => opens(line) || entry.is_some_and(|entry| entry.value.is_empty()),
            // Frames of a stack.
            None => before_is_head && !line.contains(": "),
        };
        found
    })
}

/// Reads what a script has printed, each map a party.
///
/// # Errors
/// [`ReadError`] where there is no map.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    Ok(super::observed(capture, read(bytes)?))
}

/// Reads what a script has printed.
///
/// # Errors
/// [`ReadError`] where there is no map.
pub(crate) fn read(bytes: &[u8]) -> Result<Output, ReadError> {
    let mut reader = Reader {
        output: Output::default(),
        budget: Budget::new(bytes.len()),
        maps: std::collections::BTreeMap::new(),
        print: 0,
        last: None,
        waiting: None,
        opened: None,
    };
    let ended = reader.record(bytes);
    let mut output = reader.output;
    for (name, map) in reader.maps {
        let mut values = map.before;
        values.extend(map.values);
        output.maps.insert(name, values);
    }
    let problem = "none; expected lines such as `@NAME[KEY]: NUMBER`";
    output.finish(ended, "maps", problem)
}

/// A map: what its last print has, and what earlier ones have whose keys did not come again.
#[derive(Default)]
struct Map {
    values: Values,
    before: Values,
    print: u64,
}

/// A value whose first line was read.
struct Waiting {
    name: String,
    key: String,
    /// The beginning of its text, where a mailer wrapped it.
    text: String,
    buckets: Vec<Bucket>,
}

/// A key of several lines.
struct Opened {
    place: Position,
    text: String,
    lines: u64,
}

struct Reader {
    output: Output,
    budget: Budget,
    maps: std::collections::BTreeMap<String, Map>,
    /// Number of the print: whatever is no value of the same map ends one.
    print: u64,
    /// The map that a value was read of last, and whether it was a histogram.
    last: Option<(String, bool)>,
    waiting: Option<Waiting>,
    opened: Option<Opened>,
}

impl Reader {
    fn record(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut whole = bytes.split_inclusive(|&byte| byte == b'\n');
        let mut numbers = 1..;
        for line in whole.by_ref() {
            let place = Position::Line(numbers.next().unwrap_or(usize::MAX));
            let is_last = !line.ends_with(b"\n");
            let line = String::from_utf8_lossy(line);
            let is_whole = !is_last || ends_whole(&line);
            if !is_whole {
                self.end()?;
                return Err(Truncated::Ended(place).into());
            }
            self.line(place, line.trim_end())?;
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), Stop> {
        self.close();
        self.finish()
    }

    fn line(&mut self, place: Position, line: &str) -> Result<(), Stop> {
        let indented = line.starts_with(char::is_whitespace);
        let line = typed(line.trim());
        if self.opened.is_some() && !Entry::read(line).is_some_and(|_| line.starts_with('@')) {
            return self.inside_key(place, line);
        }
        self.close();
        if line.is_empty() {
            return self.blank();
        }
        if let Some(bucket) = bucket(line) {
            return self.bucket(place, line, bucket);
        }
        if is_bar(line) && self.waiting.is_some() {
            return Ok(());
        }
        if let Some(entry) = Entry::read(line) {
            return self.entry(place, &entry);
        }
        if opens(line) {
            self.finish()?;
            self.opened = Some(Opened {
                place,
                text: line.to_owned(),
                lines: 1,
            });
            return Ok(());
        }
        self.other(place, line, indented)
    }

    /// A blank line ends a print, but for the one behind each histogram.
    fn blank(&mut self) -> Result<(), Stop> {
        let is_histogram = self
            .waiting
            .as_ref()
            .is_some_and(|waiting| !waiting.buckets.is_empty())
            || self
                .last
                .as_ref()
                .is_some_and(|(_, is_histogram)| *is_histogram);
        if self
            .waiting
            .as_ref()
            .is_some_and(|waiting| !waiting.buckets.is_empty())
        {
            self.finish()?;
        }
        if !is_histogram {
            self.print += 1;
        }
        Ok(())
    }

    fn bucket(&mut self, place: Position, line: &str, bucket: Bucket) -> Result<(), Stop> {
        let Some(waiting) = &mut self.waiting else {
            return self.other(place, line, false);
        };
        if waiting.buckets.len() == MAX_BUCKETS {
            let expected = format!("at most {MAX_BUCKETS} buckets");
            return Err(ReadError::expected(place, &waiting.name, &expected, "more").into());
        }
        waiting.buckets.push(bucket);
        Ok(())
    }

    fn entry(&mut self, place: Position, entry: &Entry<'_>) -> Result<(), Stop> {
        self.finish()?;
        let key = one_line(entry.key);
        if is_begun(entry.value) {
            self.waiting = Some(Waiting {
                name: entry.name.to_owned(),
                key,
                text: entry.value.to_owned(),
                buckets: Vec::new(),
            });
            return Ok(());
        }
        self.store(place, entry.name, key, value(entry.value))
    }

    /// A line of a key; its last one has what an entry has behind the bracket.
    fn inside_key(&mut self, place: Position, line: &str) -> Result<(), Stop> {
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        opened.lines += 1;
        opened.text.push('\n');
        opened.text.push_str(line);
        if line.contains("]:")
            && let Some(opened) = self
                .opened
                .take_if(|opened| Entry::read(&opened.text).is_some())
            && let Some(entry) = Entry::read(&opened.text)
        {
            return self.entry(place, &entry);
        }
        let is_too_long = |opened: &mut Opened| opened.text.len() > MAX_KEY_BYTES;
        if let Some(opened) = self.opened.take_if(is_too_long) {
            self.leave_out(&opened);
        }
        Ok(())
    }

    /// A number that a mailer put on a line of its own, a frame of a stack that is a value, a message, or what a script printed.
    fn other(&mut self, place: Position, line: &str, indented: bool) -> Result<(), Stop> {
        if let Some(mut waiting) = self.waiting.take_if(|waiting| waiting.buckets.is_empty()) {
            let text = format!("{} {line}", waiting.text);
            let value = value(text.trim_start());
            if !matches!(value, MapValue::Other(_)) {
                return self.store(place, &waiting.name, waiting.key, value);
            }
            let is_more = !waiting.text.is_empty() && is_begun(&text);
            if is_more {
                waiting.text = text;
            }
            self.waiting = Some(waiting);
            if is_more {
                return Ok(());
            }
            if indented {
                return Ok(());
            }
        }
        let is_inside = self.waiting.is_some() && is_elision(line);
        if is_inside {
            self.output.left_out.add(place, line);
            return Ok(());
        }
        self.finish()?;
        self.print += 1;
        if let Some(probes) = attached(line) {
            self.output.probes = Some(probes);
        } else if let Some(lost) = lost(line) {
            self.output.lost = self.output.lost.saturating_add(lost);
        } else {
            self.output.left_out.add(place, line);
        }
        Ok(())
    }

    fn leave_out(&mut self, key: &Opened) {
        let first = key.text.lines().next().unwrap_or_default();
        self.output.left_out.add_lines(key.place, key.lines, first);
    }

    /// Gives up a key that never ended.
    fn close(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.leave_out(&opened);
        }
    }

    /// Stores a value that no further line belongs to.
    fn finish(&mut self) -> Result<(), Stop> {
        let Some(Waiting {
            name,
            key,
            text,
            buckets,
        }) = self.waiting.take()
        else {
            return Ok(());
        };
        let value = match buckets.is_empty() {
            true => MapValue::Other(text),
            false => MapValue::Histogram(value::without_a_wrong_end(buckets)),
        };
        self.store(Position::Byte(0), &name, key, value)
    }

    fn store(
        &mut self,
        place: Position,
        name: &str,
        key: String,
        value: MapValue,
    ) -> Result<(), Stop> {
        self.keep(place, value::memory(&key, &value))?;
        if self.last.as_ref().is_none_or(|(last, _)| last != name) {
            self.print += 1;
        }
        self.last = Some((name.to_owned(), matches!(value, MapValue::Histogram(_))));
        if !self.maps.contains_key(name) {
            let memory = in_tree::<String, Map>() + 2 * first_tree_node::<String, MapValue>();
            self.keep(place, memory + REPORTED + 3 * name.len())?;
        }
        let map = self.maps.entry(name.to_owned()).or_default();
        if map.print != self.print {
            map.print = self.print;
            map.before.append(&mut map.values);
        }
        let mut replaced = 0;
        let mut clear = |values: &mut Values| {
            replaced += values.len();
            let memory = values.iter().map(|(key, value)| value::memory(key, value));
            self.budget.give_back(memory.sum());
            values.clear();
        };
        if map.values.contains_key(&key) {
            clear(&mut map.before);
            clear(&mut map.values);
        } else if map.before.contains_key(&key) {
            clear(&mut map.before);
        }
        self.output.replaced += u64::try_from(replaced).unwrap_or(u64::MAX);
        map.values.insert(key, value);
        Ok(())
    }

    fn keep(&mut self, place: Position, memory: usize) -> Result<(), Stop> {
        let kept = self.budget.take(memory);
        Ok(kept.ok_or(Truncated::TooLarge(place))?)
    }
}

/// `@name[key]: value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    name: &'a str,
    key: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (name, rest) = name(line)?;
        if let Some(value) = rest.strip_prefix(':') {
            return Some(Self {
                name,
                key: "",
                value: value.trim(),
            });
        }
        let rest = rest.strip_prefix('[')?;
        // Texts in a key may hold the same signs: a number is behind the last.
        let is_end = |at: &usize| {
            let text = rest[at + 2..].trim();
            is_begun(text) || !matches!(value(text), MapValue::Other(_))
        };
        let mut ends = rest.rmatch_indices("]:").map(|(at, _)| at);
        let end = ends.next().filter(is_end).or_else(|| rest.find("]: "))?;
        Some(Self {
            name,
            key: &rest[..end],
            value: rest[end + 2..].trim(),
        })
    }
}

/// `@name`, and what follows it.
fn name(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('@')?;
    let length = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    Some(line.split_at(1 + length))
}

/// The first line of a key of several: `@[`, `@stacks[qemu,`.
fn opens(line: &str) -> bool {
    name(line).is_some_and(|(_, rest)| rest.starts_with('[') && !rest.contains("]:"))
}

/// Ctrl-C, as a terminal shows it, is no part of a line.
fn typed(line: &str) -> &str {
    line.strip_prefix("^C").map_or(line, str::trim_start)
}

/// `Attaching 3 probes...`, since 0.25 `Attached 3 probes`.
pub(super) fn attached(line: &str) -> Option<u64> {
    let rest = line
        .strip_prefix("Attaching ")
        .or_else(|| line.strip_prefix("Attached "))?;
    let (number, what) = rest.split_once(' ')?;
    what.starts_with("probe").then(|| number.parse().ok())?
}

/// `Lost 12 events`.
fn lost(line: &str) -> Option<u64> {
    let number = line.strip_prefix("Lost ")?.strip_suffix(" events")?;
    number.parse().ok()
}

/// The value of a map on one line.
fn value(text: &str) -> MapValue {
    let number = number(text).map(MapValue::Number);
    let value = number.or_else(|| stats(text));
    value.unwrap_or_else(|| MapValue::Other(text.to_owned()))
}

/// A value that the next lines have, or the rest of it: three numbers of `stats()` are short.
fn is_begun(text: &str) -> bool {
    const MAX_STATS_BYTES: usize = 100;
    text.is_empty()
        || text.starts_with("count ") && text.len() < MAX_STATS_BYTES && stats(text).is_none()
}

/// A number of 64 bits, with or without a sign; a pointer has `0x`.
fn number(text: &str) -> Option<i128> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.into(),
        None => text.parse().ok()?,
    };
    (i64::MIN.into()..=u64::MAX.into())
        .contains(&number)
        .then_some(number)
}

/// `count 42, average 7, total 294`.
fn stats(text: &str) -> Option<MapValue> {
    let mut parts = text.split(", ");
    let mut part = |name| {
        parts
            .next()?
            .strip_prefix(name)?
            .strip_prefix(' ')
            .and_then(number)
    };
    let (count, average, total) = (part("count")?, part("average")?, part("total")?);
    parts.next().is_none().then_some(MapValue::Stats {
        count,
        average,
        total,
    })
}

/// `[256, 512)  1 |@@@ |`, `[0]  5 |..|`, `(..., 0)  1 |..|`, `[10, ...)  1 |..|`; `[0, 1]` of the first versions. A mailer may
/// have put the bar on the next line, and `...` may stand for it.
fn bucket(line: &str) -> Option<Bucket> {
    let elided = line
        .strip_suffix(ELISION)
        .filter(|line| line.ends_with(char::is_whitespace));
    let line = elided.unwrap_or(line);
    let closing = line.find([')', ']'])?;
    let (range, rest) = line.split_at(closing);
    let is_closed = rest.starts_with(']');
    let (count, bar) = rest[1..].split_once('|').unwrap_or((&rest[1..], ""));
    let count = count.strip_prefix(' ').unwrap_or(count).trim();
    let count = count.parse().ok().filter(|_| is_bar(bar))?;
    let (min, max) = match range.strip_prefix('(') {
        Some(range) => (None, bound(range.strip_prefix("..., ")?)?.checked_sub(1)),
        None => {
            let range = range.strip_prefix('[')?;
            match range.split_once(", ") {
                None => (Some(bound(range)?), Some(bound(range)?)),
                Some((min, "...")) => (Some(bound(min)?), None),
                Some((min, max)) => {
                    let max = bound(max)?;
                    let max = if is_closed {
                        Some(max)
                    } else {
                        max.checked_sub(1)
                    };
                    (Some(bound(min)?), Some(max?))
                }
            }
        }
    };
    Some(Bucket { min, max, count })
}

/// Sign of what was cut out of a paste.
const ELISION: &str = "...";

/// A line for buckets that were cut out.
fn is_elision(line: &str) -> bool {
    matches!(line, ELISION | "[...]")
}

fn is_bar(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'@' | b' ' | b'|'))
}

/// `512`, `2K`; suffixes are powers of 1024.
fn bound(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return None,
    };
    let bound = digits.parse::<i128>().ok()?.checked_mul(1 << shift)?;
    // The range above the largest number ends at 2^63.
    i64::try_from(bound)
        .or_else(|_| i64::try_from(bound - 1))
        .ok()
}

/// True of a last line without a line feed that cannot have lost digits: a histogram's bar is whole, a blank one has none.
fn ends_whole(line: &str) -> bool {
    let line = line.trim_end();
    line.is_empty() || line.ends_with('|') || !line.ends_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_below_an_elision_are_of_the_same_histogram() {
        for elision in ["...", "[...]"] {
            let text = format!(
                "@ns:\n[1K, 2K)  7 |@@ |\n[2K, 4K)  9 ...\n{elision}\n[8K, 16K)  5 |@ |\n[16K, 32K)  1...\n"
            );
            let output = read(text.as_bytes()).unwrap();
            let MapValue::Histogram(buckets) = &output.maps["@ns"][""] else {
                panic!("a histogram");
            };
            let counts: Vec<_> = buckets.iter().map(|bucket| bucket.count).collect();
            // The digits of the last may be cut.
            assert_eq!((counts, output.left_out.lines), (vec![7, 9, 5], 2));
        }
    }

    #[test]
    fn other_lines_end_a_histogram() {
        let text = "@ns:\n[1K, 2K)  7 |@@ |\nsecond 1\n[8K, 16K)  5 |@ |\n";
        let output = read(text.as_bytes()).unwrap();
        assert!(
            matches!(&output.maps["@ns"][""], MapValue::Histogram(buckets) if buckets.len() == 1)
        );
        assert_eq!(output.left_out.lines, 2);
    }
}
