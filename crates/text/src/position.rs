//! Positions in files, and the reasons of a reader to stop at one.

use std::fmt;

use pagetoll_units::budget::MEMORY_PER_BYTE;
use thiserror::Error;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    /// A line, from 1.
    Line(usize),
    /// A byte, from 0.
    Byte(usize),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Content that the format of its file does not allow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {field}: {problem}")]
pub struct ReadError {
    /// Position of the field.
    pub place: Position,
    /// The field, as the format or the file names it.
    pub field: String,
    /// Found and expected content.
    pub problem: String,
}

impl ReadError {
    /// An error about a field, without control characters.
    #[must_use]
    pub fn new(place: Position, field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            place,
            field: visible(&field.into()),
            problem: visible(&problem.into()),
        }
    }

    /// `found` stands where `expected` should.
    #[must_use]
    pub fn expected(
        place: Position,
        field: impl Into<String>,
        expected: &str,
        found: &str,
    ) -> Self {
        Self::new(
            place,
            field,
            format!("expected {expected}, found `{}`", excerpt(found)),
        )
    }
}

/// The beginning of a text, without control characters: files are foreign, terminals obey.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const CHARACTERS: usize = 60;
    let mut excerpt: String = text.chars().take(CHARACTERS).map(shown).collect();
    if text.chars().nth(CHARACTERS).is_some() {
        excerpt.push_str("..");
    }
    excerpt
}

/// A text without control characters.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().map(shown).collect()
}

fn shown(character: char) -> String {
    if character.is_ascii_graphic() || character == ' ' {
        return character.to_string();
    }
    character.escape_debug().to_string()
}

/// End of a reader before that of its file; what was read before is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// The file ends inside what begins here, which is left out: a full disk, a recorder that was killed, a text that
    /// was not copied whole. A last line without a line feed counts: its last number may lack digits.
    Ended(Position),
    /// From here on the file has more than its [`Budget`](pagetoll_units::budget::Budget) of memory allows to keep.
    TooLarge(Position),
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(place @ Position::Line(_)) => write!(
                f,
                "the file ends inside what begins at {place}, which is left out: a last line without a line feed may be cut"
            ),
            Self::Ended(place) => write!(
                f,
                "the file ends inside what begins at {place}, which is left out"
            ),
            Self::TooLarge(place) => {
                write!(
                    f,
                    "what the file holds takes more memory than {MEMORY_PER_BYTE} times its size: what follows {place} is left out"
                )
            }
        }
    }
}

/// Reason of a reader to stop.
#[derive(Debug)]
pub enum Stop {
    /// Content that is refused.
    Error(ReadError),
    /// End before that of the file.
    Truncated(Truncated),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Error(error)
    }
}

impl From<Truncated> for Stop {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated(truncated)
    }
}

/// The marker of a reader that ended so, or its error.
pub fn marker(ended: Result<(), Stop>) -> Result<Option<Truncated>, ReadError> {
    match ended {
        Ok(()) => Ok(None),
        Err(Stop::Truncated(truncated)) => Ok(Some(truncated)),
        Err(Stop::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_place_and_field_and_shows_no_control_characters() {
        let found = format!("\u{1b}[2J{}", "x".repeat(90));
        let error =
            ReadError::expected(Position::Line(3), "pf_fixed", "a number", &found).to_string();
        assert!(
            error.starts_with("line 3: pf_fixed: expected a number, found `\\u{1b}[2Jxx"),
            "{error}"
        );
        assert!(error.len() < 130 && error.ends_with("..`"), "{error}");
    }
}
