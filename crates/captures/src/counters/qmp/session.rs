//! The messages of a session, one after the other, and the elements of those that are replies with a list.

use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::value::RawValue;

use crate::json::{Part, Parts, Within, is_cut, json_problem};
use crate::position::{Position, ReadError, Stop, Truncated};

/// Hands each element of each reply over, with the line on which its message begins. Those of a message that is cut are
/// handed over as far as they are whole.
pub(super) fn replies(
    bytes: &[u8],
    mut each: impl FnMut(Position, &RawValue) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut rest = bytes.trim_ascii_start();
    let mut line = 1 + lines_between(bytes, rest);
    while !rest.is_empty() {
        let mut json = serde_json::Deserializer::from_slice(rest);
        let mut stopped = None;
        let message = Within {
            name: "return",
            expected: "a message of QEMU's monitor",
            parts: Parts {
                each: |part: Part<'_>| match part {
                    Part::Element(element) => each(Position::Line(line), element),
                    Part::Member(..) => Ok(()),
                },
                stopped: &mut stopped,
            },
        };
        let message = message.deserialize(&mut json);
        stopped.map_or(Ok(()), Err)?;
        message.map_err(|error| ended(line, rest, &error))?;
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

fn ended(line: usize, text: &[u8], error: &serde_json::Error) -> Stop {
    if is_cut(text, error) {
        return Truncated::Ended(Position::Line(line)).into();
    }
    let place = Position::Line(line + error.line().saturating_sub(1));
    ReadError::new(place, "JSON", json_problem(error)).into()
}
