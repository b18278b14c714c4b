//! The lines of a text that was recorded elsewhere.

use crate::position::{Position, ReadError, Stop, Truncated};

/// A line without its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) place: Position,
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    /// A line by its number, from 1.
    pub(crate) const fn of(number: usize, text: &'a str) -> Self {
        Self {
            place: Position::Line(number),
            text,
        }
    }
}

/// The lines of a file. A last one without a line feed is not among them: [`Truncated::Ended`].
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<Line<'_>, Stop>> {
    (1..)
        .zip(bytes.split_inclusive(|&byte| byte == b'\n'))
        .map(|(number, line)| {
            let place = Position::Line(number);
            let Some(line) = line.strip_suffix(b"\n") else {
                return Err(Truncated::Ended(place).into());
            };
            Ok(Line {
                place,
                text: utf8(place, line)?,
            })
        })
}

fn utf8(place: Position, line: &[u8]) -> Result<&str, ReadError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    str::from_utf8(line)
        .map_err(|_| ReadError::expected(place, "text", "UTF-8", &String::from_utf8_lossy(line)))
}

/// The first lines that are not blank, of a file or of its beginning: to recognise a format.
pub(crate) fn first_lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let lines = bytes
        .split(|&byte| byte == b'\n')
        .map_while(|line| str::from_utf8(line).ok());
    lines.map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_may_be_cut_is_not_read() {
        let read: Vec<_> = lines(b"a\r\n\nb")
            .map(|line| line.ok().map(|line| line.text))
            .collect();
        assert_eq!(read, [Some("a"), Some(""), None]);
        assert_eq!(first_lines(b"\n  a\nb").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let Some(Err(Stop::Error(error))) = lines(b"a\n\xff\n").nth(1) else {
            panic!("no error");
        };
        assert_eq!(error.place, Position::Line(2));
    }
}
