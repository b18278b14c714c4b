//! Members of a JSON or TOML document: replaced, removed, renamed, repeated.

use arbitrary::{Result, Unstructured};
use serde_json::{Number, Value};

use super::{WORDS, bytes};

/// Deeper members are changed as a whole.
const DEPTH: u8 = 8;
/// Larger members are not repeated: what holds copies of itself, repeated again, would soon fill the memory.
const MOST_REPEATED: usize = 1000;

pub(super) fn edited_json(seed: &[u8], script: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let Ok(mut document) = serde_json::from_slice(seed) else {
        return bytes::edited(seed, script);
    };
    edit(&mut document, script)?;
    Ok(document.to_string().into_bytes())
}

pub(super) fn edited_toml(seed: &[u8], script: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let text = String::from_utf8_lossy(seed);
    let Ok(mut document) = toml::from_str(&text) else {
        return bytes::edited(seed, script);
    };
    edit(&mut document, script)?;
    // TOML has no null and no 64-bit unsigned: such a document is no change.
    Ok(toml::to_string(&document).map_or_else(|_unlike| seed.to_vec(), String::into_bytes))
}

fn edit(document: &mut Value, script: &mut Unstructured<'_>) -> Result<()> {
    while !script.is_empty() {
        descend(document, script, DEPTH)?;
    }
    Ok(())
}

/// Changes a member of this one, or this one.
fn descend(value: &mut Value, script: &mut Unstructured<'_>, depth: u8) -> Result<()> {
    if depth == 0 || script.ratio(1u8, 12u8)? {
        *value = replacement(value, script)?;
        return Ok(());
    }
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = script.choose_index(items.len())?;
            match script.int_in_range(0..=9u8)? {
                0 => drop(items.remove(at)),
                1 if size(&items[at]) <= MOST_REPEATED => items.insert(at, items[at].clone()),
                _ => descend(&mut items[at], script, depth - 1)?,
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let names: Vec<String> = members.keys().cloned().collect();
            let name = script.choose(&names)?;
            match script.int_in_range(0..=9u8)? {
                0 => drop(members.remove(name)),
                1 => {
                    let renamed = (*script.choose(&WORDS)?).to_owned();
                    let member = members.remove(name).unwrap_or_default();
                    members.insert(renamed, member);
                }
                _ => descend(
                    members.entry(name.clone()).or_insert(Value::Null),
                    script,
                    depth - 1,
                )?,
            }
        }
        other => *other = replacement(other, script)?,
    }
    Ok(())
}

/// A value and all that is in it.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum(),
        _ => 0,
    }
}

/// Mostly a value of the same kind.
fn replacement(value: &Value, script: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match (value, script.int_in_range(0..=9u8)?) {
        (_, 0) => Value::Null,
        (_, 1) => Value::Bool(script.arbitrary()?),
        (_, 2) => Value::Array(vec![value.clone()]),
        (Value::Number(_), 3..=5) => script.arbitrary::<u64>()?.into(),
        (Value::Number(_), 6) => script.arbitrary::<i64>()?.into(),
        (Value::Number(_), _) => {
            Number::from_f64(script.arbitrary()?).map_or(Value::Null, Value::Number)
        }
        (_, 3..=6) => (*script.choose(&WORDS)?).into(),
        _ => script.arbitrary::<&str>()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Shape;

    /// Once 8 GiB: it repeats what holds what it repeated.
    #[test]
    fn a_script_that_repeats_what_it_repeated_stays_small() {
        let session = include_str!("../../../captures/tests/data/counters/query-stats.json");
        let mut replies = session
            .lines()
            .filter(|line| line.starts_with(r#"{"return": [{"provider""#));
        let reply = replies.nth(2).unwrap();
        let script = &include_bytes!("repeats.bin")[1..];
        let edited = Shape::Json.edited(reply.as_bytes(), script);
        assert!(edited.len() < 1 << 20, "{} bytes", edited.len());
        let whole = serde_json::json!([[1, {"a": 2}], "b"]);
        assert_eq!(size(&whole), 6);
    }
}
