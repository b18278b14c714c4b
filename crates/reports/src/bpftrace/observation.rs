//! Observations of the maps of a script, and of histograms of bcc.

use pagetoll_observation::{Bucket, Capture, Group, Item, Observation, Party, Values, total};

use super::{MapValue, Output};

/// The observation of an output, each map a party.
pub(crate) fn observed(capture: Capture, output: Output) -> Observation {
    let mut unknown = output.others;
    let mut more = |name: &str, count: u64| {
        if count > 0 {
            unknown.insert(name.to_owned(), count);
        }
    };
    if let Some(first) = &output.left_out.first {
        let place = first.place();
        more(
            &format!("({place} and others that are no value of a map)"),
            output.left_out.lines,
        );
    }
    let printed = u64::try_from(output.printed.len()).unwrap_or(u64::MAX);
    more("(lines that the script printed)", printed);
    more("(values that were printed again later)", output.replaced);
    let mut parties = Vec::with_capacity(output.maps.len());
    let mut others = 0;
    for (name, values) in output.maps {
        let all = values.len();
        let mut items = Vec::with_capacity(all);
        let found = values.into_iter();
        items.extend(found.filter_map(|(key, value)| item(&name, key, value)));
        others += u64::try_from(all - items.len()).unwrap_or(u64::MAX);
        if !items.is_empty() {
            parties.push(Party::new(name, None, items));
        }
    }
    more("(values that are no number)", others);
    Observation {
        capture: Capture {
            lost: output.lost,
            truncated: output.truncated.as_ref().map(ToString::to_string),
            unknown,
            ..capture
        },
        parties,
    }
}

/// A value of a map, by its key.
fn item(map: &str, key: String, value: MapValue) -> Option<Item> {
    let value_unit = unit(map);
    let values = |count: u64, values: Values| Item {
        values: Some(Box::new(Values {
            value_unit,
            ..values
        })),
        ..Item::counted(Group::Values, key.clone(), count)
    };
    match value {
        MapValue::Number(number) => match u64::try_from(number) {
            Ok(count) if value_unit.is_none() && names_a_count(map) => {
                Some(Item::counted(Group::Counters, key, count))
            }
            _ => Some(values(
                1,
                Values {
                    value: Some(number),
                    ..Values::default()
                },
            )),
        },
        MapValue::Histogram(found) => Some(Item {
            buckets: found.iter().map(bucket).collect(),
            ..values(
                total(found.iter().map(|bucket| bucket.count)),
                Values::default(),
            )
        }),
        MapValue::Stats {
            count,
            average,
            total,
        } => Some(values(
            u64::try_from(count).ok()?,
            Values {
                mean: Some(average),
                total: Some(total),
                ..Values::default()
            },
        )),
        MapValue::Other(_) => None,
    }
}

fn bucket(bucket: &super::Bucket) -> Bucket {
    Bucket {
        from: bucket.min,
        to: bucket.max,
        count: bucket.count,
    }
}

/// The unit that the last word of a map's name says: `@pin_ms`, `@usecs`.
fn unit(map: &str) -> Option<&'static str> {
    let last = map.trim_start_matches('@').rsplit('_').next()?;
    Some(match last.to_ascii_lowercase().as_str() {
        "ns" | "nsec" | "nsecs" | "nanoseconds" => "ns",
        "us" | "usec" | "usecs" | "microseconds" => "us",
        "ms" | "msec" | "msecs" | "milliseconds" => "ms",
        "sec" | "secs" | "seconds" => "s",
        "bytes" => "bytes",
        "pages" => "pages",
        _ => return None,
    })
}

/// A name that only a count has: `@exits`, `@fault_count`.
fn names_a_count(map: &str) -> bool {
    const COUNTS: [&str; 9] = [
        "count", "counts", "cnt", "calls", "exits", "hits", "faults", "events", "num",
    ];
    let words = map.trim_start_matches('@').split('_');
    words
        .into_iter()
        .any(|word| COUNTS.contains(&&*word.to_ascii_lowercase()))
}
