//! The messages of QEMU's monitor, one behind the other, and the elements of those that are replies with a list.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::json::json_problem;
use crate::place::{Place, ReadError, Stop, Truncated};

/// Hands each element of each reply over, with the line on which its message begins. Those of a message that is cut are
/// handed over as far as they are whole.
pub(super) fn replies(
    bytes: &[u8],
    mut each: impl FnMut(Place, &Json) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut rest = bytes.trim_ascii_start();
    let mut line = 1 + lines_between(bytes, rest);
    while !rest.is_empty() {
        let mut elements = Vec::new();
        let mut json = serde_json::Deserializer::from_slice(rest);
        let message = Message(&mut elements).deserialize(&mut json);
        elements
            .iter()
            .try_for_each(|element| each(Place::Line(line), element))?;
        message.map_err(|error| stopped(line, &error))?;
        let read = json.into_iter::<IgnoredAny>().byte_offset();
        let next = rest.get(read..).unwrap_or_default().trim_ascii_start();
        line += lines_between(rest, next);
        rest = next;
    }
    Ok(())
}

/// Line feeds before the rest of a text.
fn lines_between(text: &[u8], rest: &[u8]) -> usize {
    let before = &text[..text.len() - rest.len()];
    before.iter().filter(|&&byte| byte == b'\n').count()
}

fn stopped(line: usize, error: &serde_json::Error) -> Stop {
    if error.is_eof() {
        return Truncated::Ended(Place::Line(line)).into();
    }
    let place = Place::Line(line + error.line().saturating_sub(1));
    ReadError::new(place, "JSON", json_problem(error)).into()
}

/// A message; the elements of its reply are put into the list.
struct Message<'a>(&'a mut Vec<Json>);

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of QEMU's monitor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(key) = members.next_key::<String>()? {
            if key == "return" {
                members.next_value_seed(Reply(self.0))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A reply; what is no list is passed over.
struct Reply<'a>(&'a mut Vec<Json>);

impl<'de> DeserializeSeed<'de> for Reply<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reply<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            self.0.push(element);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
