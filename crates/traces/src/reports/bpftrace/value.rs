//! The values of a map.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value as Json};

use crate::place::{Place, ReadError};

/// How many values fell into a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the range; none where it has no end.
    pub min: Option<i64>,
    /// The largest value of the range; none where it has no end.
    pub max: Option<i64>,
    /// Values in it.
    pub count: u64,
}

/// A value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapValue {
    /// Of `count()`, `sum()`, `min()`, `max()`, `avg()`, or assigned; of 64 bits with or without sign.
    Number(i128),
    /// Of `stats()`.
    Stats {
        /// Values.
        count: i128,
        /// Their mean, rounded down.
        average: i128,
        /// Their sum.
        total: i128,
    },
    /// Of `hist()` and `lhist()`; the lowest range first.
    Histogram(Vec<Bucket>),
    /// Anything else, as JSON.
    Other(String),
}

impl MapValue {
    /// Numbers that it takes to keep it.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Histogram(buckets) => 1 + buckets.len(),
            _ => 1,
        }
    }
}

/// The values of a map by key. A map of histograms or statistics that has no keys is recognised by its type and its members.
pub(super) fn values(
    place: Place,
    of_type: &str,
    name: &str,
    map: &Json,
) -> Result<BTreeMap<String, MapValue>, ReadError> {
    match map {
        Json::Object(members) if !(of_type == "stats" && is_stats(members)) => members
            .iter()
            .map(|(key, value)| Ok((key.clone(), read(place, name, value)?)))
            .collect(),
        value => Ok([(String::new(), read(place, name, value)?)].into()),
    }
}

fn is_stats(members: &Object<String, Json>) -> bool {
    ["count", "average", "total"]
        .iter()
        .all(|key| members.contains_key(*key))
}

fn read(place: Place, name: &str, json: &Json) -> Result<MapValue, ReadError> {
    match json {
        Json::Array(buckets) if is_histogram(buckets) => {
            let buckets = buckets
                .iter()
                .map(|of| bucket(place, name, of))
                .collect::<Result<_, _>>()?;
            Ok(MapValue::Histogram(buckets))
        }
        Json::Object(members) if is_stats(members) => stats(place, name, members),
        Json::Number(_) => {
            Ok(integer(json).map_or_else(|| MapValue::Other(json.to_string()), MapValue::Number))
        }
        other => Ok(MapValue::Other(other.to_string())),
    }
}

/// Tuples and arrays are lists too.
fn is_histogram(buckets: &[Json]) -> bool {
    buckets.iter().all(|bucket| bucket.get("count").is_some())
}

fn bucket(place: Place, name: &str, json: &Json) -> Result<Bucket, ReadError> {
    let bound = |key: &str| match json.get(key) {
        None => Ok(None),
        Some(bound) => bound.as_i64().map(Some).ok_or_else(|| {
            ReadError::expected(place, name, "a bound of a bucket", &bound.to_string())
        }),
    };
    let count = json.get("count").unwrap_or(&Json::Null);
    let Some(count) = count.as_u64() else {
        return Err(ReadError::expected(
            place,
            name,
            "a count of a bucket",
            &count.to_string(),
        ));
    };
    Ok(Bucket {
        min: bound("min")?,
        max: bound("max")?,
        count,
    })
}

fn stats(place: Place, name: &str, members: &Object<String, Json>) -> Result<MapValue, ReadError> {
    let number = |key: &str| {
        let found = members.get(key).unwrap_or(&Json::Null);
        integer(found).ok_or_else(|| {
            ReadError::expected(
                place,
                name,
                &format!("a number as {key}"),
                &found.to_string(),
            )
        })
    };
    Ok(MapValue::Stats {
        count: number("count")?,
        average: number("average")?,
        total: number("total")?,
    })
}

fn integer(json: &Json) -> Option<i128> {
    json.as_u64()
        .map(i128::from)
        .or_else(|| json.as_i64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values_of(of_type: &str, json: &str) -> BTreeMap<String, MapValue> {
        values(
            Place::Line(1),
            of_type,
            "@m",
            &serde_json::from_str(json).unwrap(),
        )
        .unwrap()
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
            MapValue::Other("[1,\"a\"]".to_owned())
        );
        assert_eq!(
            values_of("map", "1.5")[""],
            MapValue::Other("1.5".to_owned())
        );
        let histograms = values_of("hist", r#"{"1": [{"min": 0, "max": 0, "count": 9}]}"#);
        assert_eq!(histograms["1"].len(), 2);
    }
}
