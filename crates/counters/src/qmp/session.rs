//! The messages of a session, one after the other: elements of replies with a list, members of replies with an object.
//!
//! Between messages may be what a shell, a page or QEMU's documentation has around them: a command line above a reply,
//! the prompt of qmp-shell, `-> ` and `<- `. Of libvirt's log of the monitor, replies are read; their line also has a time
//! and a function before the message (`qemuMonitorJSONIOProcessLine` of `src/qemu/qemu_monitor_json.c`, libvirt 1.0 to 11).

use std::borrow::Cow;

use pagetoll_text::json::{Part, Parts, Within, is_cut, json_problem};
use pagetoll_text::{Position, ReadError, Stop, Truncated};
use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::value::RawValue;

/// Marks of QEMU's documentation for what a client and a server say.
const MARKS: [&str; 2] = ["-> ", "<- "];
/// Mark of a reply in libvirt's log, and what is between it and the message: `mon=0x7fa4380028a0 reply=`.
const LOGGED: (&str, &str) = ("QEMU_MONITOR_RECV_REPLY: ", "reply=");
/// Bytes of a line in which a message of libvirt's log begins at the latest. They were 160 at most.
const LOG_PREFIX: usize = 256;
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
    // What is cut off are whole characters: the signs of the marks.
    let cut = line.len() - behind_mark(line.as_bytes()).len();
    line.get(cut..).unwrap_or(line)
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
    let marked = marked.next().or_else(|| behind_log(text));
    marked.map_or(text, <[u8]>::trim_ascii_start)
}

/// The message of a line of libvirt's log.
fn behind_log(text: &[u8]) -> Option<&[u8]> {
    let head = &text[..text.len().min(LOG_PREFIX)];
    let head = &head[..line_end(head)];
    let find = |from: usize, mark: &str| {
        let mut windows = head.get(from..)?.windows(mark.len());
        let at = windows.position(|window| window == mark.as_bytes())?;
        Some(from + at + mark.len())
    };
    text.get(find(find(0, LOGGED.0)?, LOGGED.1)?..)
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
