//! Output of bpftrace: [`text`], and that of `-f json`, an object a line, `{"type": "map", "data": {"@name": ..}}`, or over
//! several, as jq prints it.
//!
//! The last value of a map that is printed each interval is kept. Events that the kernel lost are counted.
//! Lines that are no object, which bpftrace writes to another stream, are passed over.
//!
//! Which function made a number is in neither form: `count()`, `sum()`, `avg()`, `min()`, `max()` and an assignment look alike.
//!
//! Source: `JsonOutput` of `src/output.cpp`, bpftrace 0.9 to 0.23.

mod observation;
pub mod text;
mod value;

use std::collections::BTreeMap;

use pagetoll_observation::{Capture, Observation};
use pagetoll_text::json::{self, Part, json_problem};
use pagetoll_text::{LeftOut, Position, ReadError, Stop, Truncated, first_lines, marker};
use pagetoll_units::budget::{Budget, first_tree_node, in_tree, in_vector};
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use observation::observed;
pub(crate) use value::{Bucket, MAX_BUCKETS, MapValue, memory};

/// The values of a map by key, several parts separated by commas; a map without keys has one value, whose key is empty.
pub(crate) type Values = BTreeMap<String, MapValue>;

/// Bytes that the observation of a map takes. Assumed.
pub(super) const REPORTED: usize = 256;

/// Output of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// By name with its `@`, each as it was printed last.
    pub(crate) maps: BTreeMap<String, Values>,
    /// Lines that the script printed.
    pub(crate) printed: Vec<String>,
    /// Probes that were attached, where it says so.
    pub(crate) probes: Option<u64>,
    /// Events that the kernel could not hand over: counts of a `printf` are too low then, those of maps are not.
    pub(crate) lost: u64,
    /// Lines with other objects, by their type.
    pub(crate) others: BTreeMap<String, u64>,
    /// Lines that are no object; of a text, no value of a map.
    pub(crate) left_out: LeftOut,
    /// Values of maps that were printed again later.
    pub(crate) replaced: u64,
    /// End of the file, if the reader stopped before it.
    pub(crate) truncated: Option<Truncated>,
}

impl Output {
    /// The output of a tool that prints maps as text, up to where its reading ended. A whole text without a map is an error.
    pub(crate) fn finish(
        self,
        ended: Result<(), Stop>,
        field: &str,
        problem: &str,
    ) -> Result<Self, ReadError> {
        let truncated = marker(ended)?;
        if self.maps.is_empty() && truncated.is_none() {
            return Err(ReadError::new(Position::Byte(0), field, problem));
        }
        Ok(Self { truncated, ..self })
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(rename = "type")]
    of_type: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Recognises a file that begins with such an object; messages of bpftrace may stand before it.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let starts = [r#"{"type":""#, r#"{"data":{"@"#];
    let mut lines = first_lines(bytes).skip_while(|line| text::attached(line).is_some());
    let characters = lines.by_ref().flat_map(str::chars);
    let start: String = characters.filter(|c| !c.is_whitespace()).take(16).collect();
    starts.iter().any(|expected| start.starts_with(expected))
}

/// Reads what a script has written, each map a party.
///
/// # Errors
/// [`ReadError`] with line and field, where a line is no object of bpftrace; when there is none.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    Ok(observed(capture, read(bytes)?))
}

/// Reads what a script has written.
///
/// # Errors
/// [`ReadError`] with line and field, where a line is no object of bpftrace; when there is none.
pub(crate) fn read(bytes: &[u8]) -> Result<Output, ReadError> {
    let mut reader = Reader {
        output: Output::default(),
        budget: Budget::new(bytes.len()),
        objects: 0,
    };
    let ended = reader.record(bytes);
    let truncated = marker(ended)?;
    if reader.objects == 0 && !(is(bytes) && truncated.is_some()) {
        return Err(ReadError::new(
            Position::Byte(0),
            "type",
            "none; expected what bpftrace -f json writes",
        ));
    }
    Ok(Output {
        truncated,
        ..reader.output
    })
}

struct Reader {
    output: Output,
    budget: Budget,
    objects: usize,
}

impl Reader {
    /// An object ends with its brace: unlike other texts, the last line is whole without a line feed.
    fn record(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let (mut rest, mut number) = (bytes, 1);
        while !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            let place = Position::Line(number);
            let indent = line.len() - line.trim_ascii_start().len();
            let taken = if line[indent..].starts_with(b"{") {
                indent + self.object(place, &rest[indent..])?
            } else {
                // What encloses and separates the objects of a list.
                if !matches!(line.trim_ascii(), b"" | b"[" | b"]" | b",") {
                    let line = String::from_utf8_lossy(line);
                    self.output.left_out.add(place, &line);
                }
                end.map_or(rest.len(), |end| end + 1)
            };
            number += rest[..taken].iter().filter(|&&byte| byte == b'\n').count();
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Takes the object that a text begins with, and returns its length.
    fn object(&mut self, place: Position, text: &[u8]) -> Result<usize, Stop> {
        let mut objects = serde_json::Deserializer::from_slice(text).into_iter::<Object<'_>>();
        let object = objects.next().transpose();
        let object = object.map_err(|error| stopped(place, text, &error))?;
        let Some(object) = object else {
            return Ok(text.len());
        };
        let length = objects.byte_offset();
        self.objects += 1;
        match object.of_type.as_str() {
            "map" | "hist" | "lhist" | "stats" | "tseries" => self.maps(place, &object)?,
            "printf" => self.printed(place, object.data)?,
            "attached_probes" => self.output.probes = Some(number(place, object.data, "probes")?),
            "lost_events" => {
                let lost = number(place, object.data, "events")?;
                self.output.lost = self.output.lost.saturating_add(lost);
            }
            _ => self.other(place, object.of_type)?,
        }
        Ok(length)
    }

    fn keep(&mut self, place: Position, memory: usize) -> Result<(), Stop> {
        let kept = self.budget.take(memory);
        Ok(kept.ok_or(Truncated::TooLarge(place))?)
    }

    fn maps(&mut self, place: Position, object: &Object<'_>) -> Result<(), Stop> {
        let Some(data) = object.data.filter(|data| data.get().starts_with('{')) else {
            let found = json::shown(object.data);
            return Err(ReadError::expected(place, "data", "an object", found).into());
        };
        json::parts(data, |part| match part {
            Part::Member(name, map) => self.map(place, &object.of_type, name, map),
            Part::Element(_) => Ok(()),
        })
    }

    fn map(
        &mut self,
        place: Position,
        of_type: &str,
        name: String,
        map: &RawValue,
    ) -> Result<(), Stop> {
        let mut values = Values::new();
        value::each(place, of_type, &name, map, |key, value| {
            self.keep(place, value::memory(&key, &value))?;
            values.insert(value::one_line(&key), value);
            Ok(())
        })?;
        if let Some(before) = self.output.maps.get_mut(&name) {
            let memory = before.iter().map(|(key, value)| value::memory(key, value));
            self.budget.give_back(memory.sum());
            self.output.replaced += u64::try_from(before.len()).unwrap_or(u64::MAX);
            *before = values;
            return Ok(());
        }
        let memory = in_tree::<String, Values>() + first_tree_node::<String, MapValue>() + REPORTED;
        self.keep(place, memory + 2 * name.len())?;
        self.output.maps.insert(name, values);
        Ok(())
    }

    fn printed(&mut self, place: Position, data: Option<&RawValue>) -> Result<(), Stop> {
        let Some(text) = json::text(data) else {
            return Err(ReadError::expected(place, "data", "text", json::shown(data)).into());
        };
        self.keep(place, in_vector::<String>() + text.len())?;
        self.output.printed.push(text);
        Ok(())
    }

    fn other(&mut self, place: Position, of_type: String) -> Result<(), Stop> {
        if !self.output.others.contains_key(&of_type) {
            self.keep(place, 2 * (in_tree::<String, u64>() + of_type.len()))?;
        }
        *self.output.others.entry(of_type).or_default() += 1;
        Ok(())
    }
}

fn number(place: Position, data: Option<&RawValue>, field: &str) -> Result<u64, Stop> {
    let mut found = None;
    if let Some(data) = data {
        json::parts(data, |part| {
            if let Part::Member(name, value) = part
                && name == field
            {
                found = Some(value);
            }
            Ok(())
        })?;
    }
    let found = json::shown(found);
    let number = serde_json::from_str(found);
    Ok(number.map_err(|_| ReadError::expected(place, field, "a number", found))?)
}

fn stopped(place: Position, line: &[u8], error: &serde_json::Error) -> Stop {
    if json::is_cut(line, error) {
        return Truncated::Ended(place).into();
    }
    ReadError::new(place, "JSON", json_problem(error)).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::value::Bucket;
    use super::*;

    const OUTPUT: &str = r#"Attaching 3 probes...
{"type": "attached_probes", "data": {"probes": 3}}

{"type": "printf", "data": "second 1\n"}
{"type": "lost_events", "data": {"events": 5}}
{"type": "map", "data": {"@set_spte": {"1": 349672, "2": 18446744073709551615}}}
{"type": "map", "data": {"@unmap": -49}}
{"type": "hist", "data": {"@bytes": [{"max": -1, "count": 2}, {"min": 4096, "max": 8191, "count": 17}, {"min": 8192, "count": 1}]}}
{"type": "stats", "data": {"@run": {"count": 42, "average": 7, "total": 294}}}
{"type": "stats", "data": {"@by": {"qemu,1": {"count": 1, "average": 2, "total": 2}}}}
{"type": "map", "data": {"@unmap": 50}}
{"type": "lost_events", "data": {"events": 2}}
{"type": "time", "data": "12:00:00"}"#;

    #[test]
    fn maps_are_kept_and_lost_events_counted() {
        assert!(is(OUTPUT.as_bytes()) && !is(b"{\"return\": []}"));
        let output = read(OUTPUT.as_bytes()).unwrap();
        assert_eq!(
            (output.probes, output.lost, output.left_out.lines),
            (Some(3), 7, 1)
        );
        assert_eq!(
            (output.printed.as_slice(), output.others["time"]),
            (&["second 1\n".to_owned()][..], 1)
        );
        let value = |name: &str, key: &str| output.maps[name][key].clone();
        assert_eq!(value("@set_spte", "2"), MapValue::Number(u64::MAX.into()));
        assert_eq!(value("@unmap", ""), MapValue::Number(50));
        assert_eq!(
            value("@run", ""),
            MapValue::Stats {
                count: 42,
                average: 7,
                total: 294
            }
        );
        assert_eq!(
            value("@by", "qemu,1"),
            MapValue::Stats {
                count: 1,
                average: 2,
                total: 2
            }
        );
        let bucket = |min, max, count| Bucket { min, max, count };
        let buckets = [
            bucket(None, Some(-1), 2),
            bucket(Some(4096), Some(8191), 17),
            bucket(Some(8192), None, 1),
        ];
        assert_eq!(value("@bytes", ""), MapValue::Histogram(buckets.into()));
        assert_eq!(output.maps.len(), 5);
    }

    #[test]
    fn an_output_that_is_cut_gives_whole_lines_and_says_so() {
        for length in 0..OUTPUT.len() {
            match read(&OUTPUT.as_bytes()[..length]) {
                Ok(output) => {
                    let last = OUTPUT[..length].lines().last().unwrap();
                    let cut = last.starts_with('{') && OUTPUT.lines().all(|line| line != last);
                    assert_eq!(output.truncated.is_some(), cut, "{last}");
                }
                Err(error) => assert_eq!(error.field, "type"),
            }
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let error = |from, to| {
            read(OUTPUT.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("\"events\": 5", "\"events\": -5"),
            "line 5: events: expected a number, found `-5`"
        );
        assert_eq!(
            error("\"count\": 17", "\"count\": \"x\""),
            "line 8: @bytes: expected a count of a bucket, found `\"x\"`"
        );
        assert!(
            error("\"type\": \"printf\", ", "").starts_with("line 4: JSON: missing field `type`")
        );
        assert!(error("\"second 1\\n\"", "7").starts_with("line 4: data: expected text"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::btree_map("[a-z0-9,]{1,9}", any::<i64>(), 1..20)) {
            let line = serde_json::json!({"type": "map", "data": {"@m": &values}}).to_string();
            let output = read(line.as_bytes()).unwrap();
            let expected: BTreeMap<_, _> = values.into_iter().map(|(key, value)| (key, MapValue::Number(value.into()))).collect();
            prop_assert_eq!(&output.maps["@m"], &expected);
        }
    }
}
