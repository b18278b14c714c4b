//! The messages of a session, one after the other: elements of replies with a list, members of replies with an object.
//!
//! Between messages may be what a shell, a page or QEMU's documentation has around them: a command line above a reply,
//! the prompt of qmp-shell, `-> ` and `<- `.

use std::borrow::Cow;

use pagetoll_text::json::{Part, Parts, Within, is_cut, json_problem};
use pagetoll_text::{Position, ReadError, Stop, Truncated};
use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::value::RawValue;

/// Marks of QEMU's documentation for what a client and a server say.
const MARKS: [&str; 2] = ["-> ", "<- "];
/// Prompts of qmp-shell and of QEMU's human monitor.
const PROMPTS: [&str; 2] = ["(QEMU)", "(qemu)"];

/// Part of a session.
pub enum Said<'a> {
    /// An element of a reply that is a list.
    Element(&'a RawValue),
    /// A member of a reply that is an object.
    Member(&'a str, &'a RawValue),
    /// The end of a message.
    End,
    /// A line that is no message.
    Other(&'a str),
}

/// A line without a mark before the message.
pub(super) fn unmarked(line: &str) -> &str {
    let line = line.trim_start();
    let marked = MARKS.iter().find_map(|mark| line.strip_prefix(mark));
    marked.map_or(line, str::trim_start)
}

/// Hands over what a session has, with the line on which its message begins. Parts of a message that is cut are handed over
/// as far as they are whole.
///
/// # Errors
/// A message that is no JSON, or is cut; else the first [`Stop`] of `each`.
pub fn replies(
    bytes: &[u8],
    mut each: impl FnMut(Position, Said<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut rest = bytes.trim_ascii_start();
    let mut line = 1 + lines_between(bytes, rest);
    while !rest.is_empty() {
        let place = Position::Line(line);
        let message = behind_mark(rest);
        let read = if message.starts_with(b"{") {
            let marked = rest.len() - message.len();
            match message_at(place, message, &mut each) {
                // QEMU takes single quotes, which JSON has not; replies have none.
                Err(Stop::Error(_)) if first_line(rest).contains("'execute'") => line_end(rest),
                read => marked + read?,
            }
        } else {
            let text = first_line(rest);
            let is_prompt = PROMPTS.iter().any(|prompt| text.starts_with(prompt));
            if !is_prompt && !text.trim().is_empty() {
                each(place, Said::Other(text.trim()))?;
            }
            line_end(rest)
        };
        let next = rest.get(read..).unwrap_or_default().trim_ascii_start();
        line += lines_between(rest, next);
        rest = next;
    }
    Ok(())
}

/// A text without a mark before its first message. A line may hold all messages of a session, so no more is looked at.
fn behind_mark(text: &[u8]) -> &[u8] {
    let mut marked = MARKS
        .iter()
        .filter_map(|mark| text.strip_prefix(mark.as_bytes()));
    marked.next().map_or(text, <[u8]>::trim_ascii_start)
}

fn line_end(text: &[u8]) -> usize {
    let end = text.iter().position(|&byte| byte == b'\n');
    end.unwrap_or(text.len())
}

fn first_line(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&text[..line_end(text)])
}

/// Hands a message over; its length.
fn message_at(
    place: Position,
    text: &[u8],
    each: &mut impl FnMut(Position, Said<'_>) -> Result<(), Stop>,
) -> Result<usize, Stop> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut stopped = None;
    let message = Within {
        name: "return",
        expected: "a message of QEMU's monitor",
        parts: Parts {
            each: |part: Part<'_>| match part {
                Part::Element(element) => each(place, Said::Element(element)),
                Part::Member(name, value) => each(place, Said::Member(&name, value)),
            },
            stopped: &mut stopped,
        },
    };
    let message = message.deserialize(&mut json);
    stopped.map_or(Ok(()), Err)?;
    message.map_err(|error| ended(place, text, &error))?;
    each(place, Said::End)?;
    Ok(json.into_iter::<IgnoredAny>().byte_offset())
}

/// Line feeds before the rest of a text.
fn lines_between(text: &[u8], rest: &[u8]) -> usize {
    let before = &text[..text.len() - rest.len()];
    before.iter().filter(|&&byte| byte == b'\n').count()
}

fn ended(place: Position, text: &[u8], error: &serde_json::Error) -> Stop {
    if is_cut(text, error) {
        return Truncated::Ended(place).into();
    }
    let before = error.line().saturating_sub(1);
    let place = match place {
        Position::Line(line) => Position::Line(line + before),
        byte @ Position::Byte(_) => byte,
    };
    ReadError::new(place, "JSON", json_problem(error)).into()
}
