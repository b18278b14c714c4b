//! The lines of a text that was recorded elsewhere.

use crate::position::{Position, ReadError, Stop, Truncated};

/// A line without its end.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its number.
    pub place: Position,
    /// Its text.
    pub text: &'a str,
}

/// The lines of a file. A last one without a line feed is not among them: [`Truncated::Ended`].
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<Line<'_>, Stop>> {
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

/// Hands each line over. A last one without a line feed may lack what followed, so it is handed over only where `is_whole`
/// recognises its end; else, or where it is refused, the file is [`Truncated::Ended`] in it.
///
/// A number at the end of such a line is never taken: `499` may be the beginning of `49990`.
pub fn each_line(
    bytes: &[u8],
    is_whole: fn(&str) -> bool,
    mut each: impl FnMut(&Line<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let place = Position::Line(number);
        if let Some(line) = line.strip_suffix(b"\n") {
            let text = utf8(place, line)?;
            each(&Line { place, text })?;
            continue;
        }
        let text = str::from_utf8(line).ok();
        match text {
            Some(text) if text.trim().is_empty() => {}
            Some(text) if is_whole(text) => match each(&Line { place, text }) {
                Err(Stop::Error(_)) => return Err(Truncated::Ended(place).into()),
                taken => taken?,
            },
            _ => return Err(Truncated::Ended(place).into()),
        }
    }
    Ok(())
}

/// A line that ends with a closing bracket: nothing follows it in the forms that have one at the end.
#[must_use]
pub fn is_closed(line: &str) -> bool {
    line.trim_end().ends_with([')', ']', '}'])
}

fn utf8(place: Position, line: &[u8]) -> Result<&str, ReadError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    str::from_utf8(line)
        .map_err(|_| ReadError::expected(place, "text", "UTF-8", &String::from_utf8_lossy(line)))
}

/// The first lines that are not blank, of a file or of its beginning: to recognise a format.
pub fn first_lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
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
    fn a_last_line_is_read_where_its_end_is_known_and_its_content_sound() {
        let read = |text: &str| {
            let mut read = Vec::new();
            let ended = each_line(text.as_bytes(), is_closed, |line| {
                if line.text.contains('!') {
                    return Err(ReadError::new(line.place, "line", "refused").into());
                }
                read.push(line.text.to_owned());
                Ok(())
            });
            let cut = matches!(ended, Err(Stop::Truncated(Truncated::Ended(_))));
            (read.join("|"), cut)
        };
        for (text, expected, cut) in [
            ("a\nb\n", "a|b", false),
            ("a\nb 12", "a", true),
            ("a\nb (12)", "a|b (12)", false),
            ("a\nb (12)  ", "a|b (12)  ", false),
            ("a\nb! (12)", "a", true),
            ("a\n   ", "a", false),
            ("", "", false),
        ] {
            assert_eq!(read(text), (expected.to_owned(), cut), "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let Some(Err(Stop::Error(error))) = lines(b"a\n\xff\n").nth(1) else {
            panic!("no error");
        };
        assert_eq!(error.place, Position::Line(2));
    }
}
