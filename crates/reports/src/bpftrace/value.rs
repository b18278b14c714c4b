//! The values of a map.

use pagetoll_text::json::{self, Part, members, object};
use pagetoll_text::{Position, ReadError, Stop};
use pagetoll_units::budget::in_tree;
use serde_json::value::RawValue;

/// Buckets of a histogram: `lhist()` has at most 1002, `hist()` with five bits 2048.
pub(crate) const MAX_BUCKETS: usize = 1 << 13;

/// Bytes that the observation of a value takes. Assumed.
const REPORTED: usize = 352;

/// Values that fell into a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The smallest value of the range; none where it has no end.
    pub(crate) min: Option<i64>,
    /// The largest value of the range; none where it has no end.
    pub(crate) max: Option<i64>,
    /// Values in it.
    pub(crate) count: u64,
}

/// A value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapValue {
    /// Value of `count()`, `sum()`, `min()`, `max()`, `avg()`, or assigned; of 64 bits with or without sign.
    Number(i128),
    /// Value of `stats()`.
    Stats {
        /// Values.
        count: i128,
        /// Their mean, rounded down.
        average: i128,
        /// Their sum.
        total: i128,
    },
    /// Value of `hist()` and `lhist()`; the lowest range first.
    Histogram(Vec<Bucket>),
    /// Anything else, as the file has it.
    Other(String),
}

/// Memory of a value that is kept by its key.
pub(crate) fn memory(key: &str, value: &MapValue) -> usize {
    let heap = match value {
        MapValue::Histogram(buckets) => size_of::<Bucket>() * buckets.capacity(),
        MapValue::Other(text) => text.len(),
        MapValue::Number(_) | MapValue::Stats { .. } => 0,
    };
    in_tree::<String, MapValue>() + REPORTED + 2 * key.len() + heap
}

members! {
    /// `stats()`, where it has all of them.
    Stats { count, average, total, }
}

members! {
    /// A bucket, where it has a count.
    RawBucket { min, max, count, }
}

/// Hands over the values of a map by key. A map of histograms or statistics that has no keys is recognised by its type and
/// its members.
pub(super) fn each(
    place: Position,
    of_type: &str,
    name: &str,
    map: &RawValue,
    mut each: impl FnMut(String, MapValue) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let has_keys = map.get().starts_with('{');
    if !has_keys || of_type == "stats" && stats(place, name, map)?.is_some() {
        return each(String::new(), read(place, name, map)?);
    }
    json::parts(map, |part| match part {
        Part::Member(key, value) => each(key, read(place, name, value)?),
        Part::Element(_) => Ok(()),
    })
}

fn read(place: Position, name: &str, json: &RawValue) -> Result<MapValue, Stop> {
    let other = || MapValue::Other(json.get().to_owned());
    let value = match json.get().as_bytes().first() {
        Some(b'[') => histogram(place, name, json)?,
        Some(b'{') => stats(place, name, json)?,
        _ => integer(json).map(MapValue::Number),
    };
    Ok(value.unwrap_or_else(other))
}

/// Tuples and arrays are lists too.
fn histogram(place: Position, name: &str, json: &RawValue) -> Result<Option<MapValue>, Stop> {
    let (mut elements, mut counts) = (0_usize, 0_usize);
    json::parts(json, |part| {
        elements += 1;
        if let Part::Element(element) = part {
            counts += usize::from(object::<RawBucket<'_>>(element).count.is_some());
        }
        Ok(())
    })?;
    if counts < elements {
        return Ok(None);
    }
    if counts > MAX_BUCKETS {
        let expected = format!("at most {MAX_BUCKETS} buckets");
        return Err(ReadError::expected(place, name, &expected, &counts.to_string()).into());
    }
    let mut buckets = Vec::with_capacity(counts);
    json::parts(json, |part| {
        if let Part::Element(element) = part {
            buckets.push(bucket(place, name, &object(element))?);
        }
        Ok(())
    })?;
    Ok(Some(MapValue::Histogram(without_a_wrong_end(buckets))))
}

/// `hist()` up to 0.19 puts all from 2^31 on into one range (`createLog2Function` of `src/ast/passes/codegen_llvm.cpp`), which the text calls
/// `[2G, 4G)` and JSON -2147483648 to 0. Where a later version wrote it, the range is narrower than what is said here.
pub(super) fn without_a_wrong_end(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    const LAST: i64 = 1 << 31;
    if let Some(last) = buckets.last_mut() {
        let of_json = (last.min, last.max) == (Some(-LAST), Some(0));
        if of_json || (last.min, last.max) == (Some(LAST), Some(2 * LAST - 1)) {
            (last.min, last.max) = (Some(LAST), None);
        }
    }
    buckets
}

/// A key on one line: the frames of a stack, the innermost first, are joined.
pub(super) fn one_line(key: &str) -> String {
    if !key.contains('\n') {
        return key.to_owned();
    }
    let mut line = String::with_capacity(2 * key.len());
    for part in key.lines().map(str::trim).filter(|part| !part.is_empty()) {
        match (
            line.is_empty() || part.starts_with(','),
            line.ends_with(','),
        ) {
            (true, _) => {}
            (false, true) => line.push(' '),
            (false, false) => line.push_str(" < "),
        }
        line.push_str(part);
    }
    line
}

fn bucket(place: Position, name: &str, raw: &RawBucket<'_>) -> Result<Bucket, ReadError> {
    let expected = |expected: &str, found: &str| ReadError::expected(place, name, expected, found);
    let bound = |bound: Option<&RawValue>| match bound.map(RawValue::get) {
        None => Ok(None),
        Some(bound) => serde_json::from_str(bound)
            .map(Some)
            .map_err(|_| expected("a bound of a bucket", bound)),
    };
    let count = json::shown(raw.count);
    Ok(Bucket {
        min: bound(raw.min)?,
        max: bound(raw.max)?,
        count: serde_json::from_str(count).map_err(|_| expected("a count of a bucket", count))?,
    })
}

fn stats(place: Position, name: &str, json: &RawValue) -> Result<Option<MapValue>, Stop> {
    let Stats {
        count: Some(count),
        average: Some(average),
        total: Some(total),
    } = object(json)
    else {
        return Ok(None);
    };
    let number = |json: &RawValue, key: &str| {
        let expected = || format!("a number as {key}");
        integer(json).ok_or_else(|| ReadError::expected(place, name, &expected(), json.get()))
    };
    Ok(Some(MapValue::Stats {
        count: number(count, "count")?,
        average: number(average, "average")?,
        total: number(total, "total")?,
    }))
}

fn integer(json: &RawValue) -> Option<i128> {
    let unsigned = serde_json::from_str::<u64>(json.get()).map(i128::from);
    let signed = || serde_json::from_str::<i64>(json.get()).map(i128::from);
    unsigned.or_else(|_| signed()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    fn values_of(of_type: &str, json: &str) -> Values {
        let mut values = Values::new();
        let map = serde_json::from_str(json).unwrap();
        each(Position::Line(1), of_type, "@m", map, |key, value| {
            values.insert(key, value);
            Ok(())
        })
        .unwrap();
        values
    }

    #[test]
    fn keys_that_are_named_like_statistics_are_keys() {
        let json = r#"{"count": 1, "average": 2, "total": 3}"#;
        assert_eq!(values_of("stats", json).len(), 1);
        assert_eq!(values_of("map", json)["count"], MapValue::Number(1));
    }

    #[test]
    fn what_is_no_number_is_kept_as_it_is() {
        assert_eq!(
            values_of("map", r#"{"1": "qemu", "2": [1, "a"]}"#)["2"],
            MapValue::Other("[1, \"a\"]".to_owned())
        );
        assert_eq!(
            values_of("map", "1.5")[""],
            MapValue::Other("1.5".to_owned())
        );
        let histograms = values_of("hist", r#"{"1": [{"min": 0, "max": 0, "count": 9}]}"#);
        assert!(matches!(&histograms["1"], MapValue::Histogram(buckets) if buckets.len() == 1));
    }
}
