//! Maps, as bpftrace prints them: `src/output.cpp` and `src/output/text.cpp`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{Damage, damages, read};

/// Value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(i64),
    Stats(u32, i64),
    /// The first power of two, and counts from there on.
    Hist(u32, Vec<u64>),
    /// The step, and counts from zero on, the last one of all above.
    Lhist(i64, Vec<u64>),
}

type Map = BTreeMap<Vec<String>, Value>;

/// Value, mean and total, count, and buckets that are not empty.
type Kept = (
    Option<i128>,
    Option<(i128, i128)>,
    u64,
    Vec<(Option<i64>, Option<i64>, u64)>,
);

#[derive(Clone, Copy, Debug)]
struct Layout {
    /// A space behind the name of a histogram, as until 0.23.
    old: bool,
    /// The whole was printed before, with other numbers.
    before: bool,
    /// The terminal's echo.
    interrupted: bool,
    bars: bool,
}

fn values() -> impl Strategy<Value = Vec<Value>> {
    let counts = || {
        prop::collection::vec(0_u64..5000, 1..12).prop_map(|mut counts| {
            *counts.first_mut().unwrap() += 1;
            *counts.last_mut().unwrap() += 1;
            counts
        })
    };
    prop_oneof![
        prop::collection::vec(any::<i64>().prop_map(Value::Number), 4),
        prop::collection::vec(
            (1_u32.., any::<i32>()).prop_map(|(n, sum)| Value::Stats(n, sum.into())),
            4
        ),
        prop::collection::vec(
            (0_u32..48, counts()).prop_map(|(first, counts)| Value::Hist(first, counts)),
            4
        ),
        prop::collection::vec(
            (
                prop::sample::select(vec![1_i64, 100, 512, 1024, 4096, 1 << 20]),
                counts()
            )
                .prop_map(|(step, counts)| Value::Lhist(step, counts)),
            4
        ),
    ]
}

fn keys() -> impl Strategy<Value = Vec<Vec<String>>> {
    let word = "[a-zA-Z0-9_/.-]([a-zA-Z0-9_/. :-]{0,9}[a-zA-Z0-9_/.-])?";
    let stack = prop::collection::vec("[a-z_]{1,9}\\+[0-9]{1,4}", 1..4).prop_map(|frames| {
        vec![format!(
            "\n{}",
            frames
                .iter()
                .map(|frame| format!("    {frame}\n"))
                .collect::<String>()
        )]
    });
    prop_oneof![
        Just(vec![vec![]]),
        prop::collection::btree_set(prop::collection::vec(word, 1..3), 1..4)
            .prop_map(|keys| keys.into_iter().collect()),
        prop::collection::btree_set(stack, 1..4).prop_map(|keys| keys.into_iter().collect()),
    ]
}

fn maps() -> impl Strategy<Value = BTreeMap<String, Map>> {
    let map = (keys(), values()).prop_map(|(keys, values)| keys.into_iter().zip(values).collect());
    prop::collection::btree_map("@[a-d]{0,5}", map, 1..4)
}

fn label(value: i64) -> String {
    let suffixes = ["", "K", "M", "G", "T", "P"];
    let (mut value, mut index) = (value, 0);
    while value != 0 && value % 1024 == 0 && index < 5 {
        (value, index) = (value / 1024, index + 1);
    }
    format!("{value}{}", suffixes[index])
}

/// Ranges, with both ends inside, and their counts.
fn ranges(value: &Value) -> Vec<(Option<i64>, Option<i64>, u64)> {
    match value {
        Value::Number(_) | Value::Stats(..) => Vec::new(),
        Value::Hist(first, counts) => (*first..)
            .zip(counts)
            .map(|(index, count)| match index {
                0 => (None, Some(-1), *count),
                1 => (Some(0), Some(0), *count),
                2 => (Some(1), Some(1), *count),
                index => (Some(1 << (index - 2)), Some((1 << (index - 1)) - 1), *count),
            })
            .collect(),
        Value::Lhist(step, counts) => (0_i64..)
            .zip(counts)
            .map(|(index, count)| {
                let is_last = usize::try_from(index).unwrap() + 1 == counts.len();
                (
                    Some(index * step),
                    (!is_last).then(|| (index + 1) * step - 1),
                    *count,
                )
            })
            .collect(),
    }
}

fn histogram(value: &Value, bars: bool) -> String {
    let most = ranges(value)
        .iter()
        .map(|(.., count)| *count)
        .max()
        .unwrap_or(1)
        .max(1);
    ranges(value)
        .into_iter()
        .map(|(min, max, count)| {
            let range = match (min, max) {
                (None, Some(max)) => format!("(..., {})", max + 1),
                (Some(min), None) => format!("[{}, ...)", label(min)),
                (Some(min), Some(max)) if min == max => format!("[{min}]"),
                (Some(min), Some(max)) => format!("[{}, {})", label(min), label(max + 1)),
                (None, None) => unreachable!(),
            };
            let bar = if bars {
                "@".repeat(usize::try_from(count * 52 / most).unwrap())
            } else {
                String::new()
            };
            format!("{range:<16}{count:>8} |{bar:<52}|\n")
        })
        .collect()
}

fn text(maps: &BTreeMap<String, Map>, layout: Layout) -> String {
    let mut text = String::new();
    for (name, map) in maps {
        for (key, value) in map {
            let key = if key.is_empty() {
                String::new()
            } else {
                format!("[{}]", key.join(", "))
            };
            let space = if layout.old { " " } else { "" };
            match value {
                Value::Number(number) => writeln!(text, "{name}{key}: {number}").unwrap(),
                Value::Stats(count, total) => {
                    let mean = total / i64::from(*count);
                    writeln!(
                        text,
                        "{name}{key}: count {count}, average {mean}, total {total}"
                    )
                    .unwrap();
                }
                histogram_value => {
                    writeln!(
                        text,
                        "{name}{key}:{space}\n{}",
                        histogram(histogram_value, layout.bars)
                    )
                    .unwrap();
                }
            }
        }
        text.push('\n');
    }
    text
}

fn json(maps: &BTreeMap<String, Map>) -> Vec<serde_json::Value> {
    let objects = maps.iter().map(|(name, map)| {
        let mut kind = "map";
        let mut values = serde_json::Map::new();
        for (key, value) in map {
            let value = match value {
                Value::Number(number) => serde_json::json!(number),
                Value::Stats(count, total) => {
                    kind = "stats";
                    serde_json::json!({"count": count, "average": total / i64::from(*count), "total": total})
                }
                value => {
                    kind = "hist";
                    ranges(value).into_iter().map(|(min, max, count)| {
                        let mut bucket = serde_json::Map::new();
                        bucket.extend(min.map(|min| ("min".to_owned(), min.into())));
                        bucket.extend(max.map(|max| ("max".to_owned(), max.into())));
                        bucket.insert("count".to_owned(), count.into());
                        serde_json::Value::Object(bucket)
                    }).collect()
                }
            };
            values.insert(key.join(","), value);
        }
        let data = match map.contains_key(&vec![]) {
            true => values.values().next().unwrap().clone(),
            false => values.into(),
        };
        serde_json::json!({"type": kind, "data": {name: data}})
    });
    objects.collect()
}

/// By map and by key on one line; parts of a key are separated as the form does.
fn expected(maps: &BTreeMap<String, Map>, separator: &str) -> BTreeMap<(String, String), Kept> {
    let mut all = BTreeMap::new();
    for (name, map) in maps {
        for (key, value) in map {
            let mut buckets = ranges(value);
            // Up to 0.19 the range from 2^31 on has all that is above.
            if let Some(last) = buckets.last_mut()
                && (last.0, last.1) == (Some(1 << 31), Some((1 << 32) - 1))
            {
                last.1 = None;
            }
            buckets.retain(|(.., count)| *count > 0);
            let kept = match value {
                Value::Number(number) => (Some(i128::from(*number)), None, 1, buckets),
                Value::Stats(count, total) => {
                    let mean = total / i64::from(*count);
                    (
                        None,
                        Some((mean.into(), (*total).into())),
                        (*count).into(),
                        buckets,
                    )
                }
                _ => (
                    None,
                    None,
                    buckets.iter().map(|(.., count)| count).sum(),
                    buckets,
                ),
            };
            let key = match key.first().filter(|key| key.contains('\n')) {
                Some(stack) => stack.split_whitespace().collect::<Vec<_>>().join(" < "),
                None => key.join(separator),
            };
            all.insert((name.clone(), key), kept);
        }
    }
    all
}

fn found(text: &str) -> BTreeMap<(String, String), Kept> {
    let mut all = BTreeMap::new();
    for party in read(text).parties {
        for item in party.items {
            let values = item.values.unwrap_or_default();
            let buckets = item.buckets.iter().filter(|bucket| bucket.count > 0);
            let buckets = buckets
                .map(|bucket| (bucket.from, bucket.to, bucket.count))
                .collect();
            let kept = (
                values.value,
                values.mean.zip(values.total),
                item.count,
                buckets,
            );
            all.insert((party.name.clone(), item.name), kept);
        }
    }
    all
}

proptest! {
    #[test]
    fn maps_as_text_are_read(maps in maps(), earlier in maps(), layout in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), damage in damages()) {
        let (old, before, interrupted, bars) = layout;
        let layout = Layout { old, before, interrupted, bars };
        let attached = if old { "Attaching 2 probes..." } else { "Attached 2 probes" };
        let mut printed = format!("{attached}\n");
        if layout.before {
            let earlier = earlier.into_iter().filter(|(name, _)| maps.contains_key(name));
            // A print of the same map has the same keys here: of others it is not known whether they are of the last print.
            let earlier: BTreeMap<String, Map> = earlier.map(|(name, _)| {
                let others = maps[&name].keys().zip(maps[&name].values().rev());
                (name, others.map(|(key, value)| (key.clone(), value.clone())).collect())
            }).collect();
            printed += &text(&earlier, layout);
            printed += "12:00:01\n";
        }
        if layout.interrupted {
            printed += "^C\n\n";
        }
        printed += &text(&maps, layout);
        let pasted = damage.to(&printed);
        let mut truth = expected(&maps, ", ");
        // A number that may lack digits is left out, and that is said.
        if damage == Damage::WithoutTheLastLineFeed && pasted.ends_with(|c: char| c.is_ascii_digit()) {
            prop_assert!(read(&pasted).capture.truncated.is_some());
            let (name, map) = maps.last_key_value().unwrap();
            let (key, _) = map.last_key_value().unwrap();
            let last: BTreeMap<_, Map> = [(name.clone(), [(key.clone(), map[key].clone())].into())].into();
            for key in expected(&last, ", ").keys() {
                truth.remove(key);
            }
            if layout.before {
                let last_of = |found: BTreeMap<(String, String), Kept>| found.into_iter().filter(|(key, _)| truth.contains_key(key)).collect::<BTreeMap<_, _>>();
                prop_assert_eq!(last_of(found(&pasted)).len(), truth.len());
                return Ok(());
            }
        }
        prop_assert_eq!(found(&pasted), truth, "{}", pasted);
    }

    #[test]
    fn maps_as_json_are_read(maps in maps(), pretty in any::<bool>(), damage in damages()) {
        // A map without keys whose value is a histogram is like one with keys to the reader, but for its brackets.
        let objects = json(&maps).into_iter().map(|object| match pretty {
            true => serde_json::to_string_pretty(&object).unwrap(),
            false => object.to_string(),
        });
        let printed: String = objects.map(|object| object + "\n").collect();
        let damage = if damage == Damage::Wrapped { Damage::None } else { damage };
        let pasted = damage.to(&printed);
        prop_assert_eq!(found(&pasted), expected(&maps, ","), "{}", pasted);
    }

    /// A text that ends anywhere has no value that the whole has not: of a histogram, some ranges may be missing.
    #[test]
    fn a_text_that_is_cut_has_no_other_values(maps in maps(), cut in any::<prop::sample::Index>()) {
        let layout = Layout { old: true, before: false, interrupted: false, bars: true };
        let printed = format!("Attaching 2 probes...\n{}", text(&maps, layout));
        let length = cut.index(printed.len());
        let observation = pagetoll_captures::observe("f", std::io::Cursor::new(&printed[..length]), &pagetoll_xentrace::symbols::Symbols::default());
        if observation.is_err() {
            return Ok(());
        }
        let whole = expected(&maps, ", ");
        for (key, kept) in found(&printed[..length]) {
            let of_whole = whole.get(&key);
            prop_assert!(of_whole.is_some(), "{:?} in\n{}", key, &printed[..length]);
            let of_whole = of_whole.unwrap();
            if kept.3.is_empty() {
                prop_assert_eq!(&kept, of_whole);
            }
            let open = |bucket: &(Option<i64>, Option<i64>, u64)| (bucket.0, bucket.2);
            for bucket in &kept.3 {
                prop_assert!(of_whole.3.iter().any(|other| open(other) == open(bucket)), "{:?}", bucket);
            }
        }
    }
}
