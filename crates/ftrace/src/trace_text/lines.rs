//! Lines of a stream, in bounded memory.

use std::io::{self, BufRead, Read};

/// The longest line that is read; of the events here none has more than some hundred bytes.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Without its line end.
    Whole(&'a [u8]),
    /// More than [`MAX_LINE_BYTES`].
    TooLong,
    /// The source ended inside it; empty where more than [`MAX_LINE_BYTES`] came before.
    Cut(&'a [u8]),
}

/// Hands out lines.
#[derive(Debug)]
pub(super) struct Lines<S> {
    source: S,
    line: Vec<u8>,
    /// Bytes read.
    pub(super) offset: u64,
    /// Lines read.
    pub(super) number: u64,
}

impl<S: BufRead> Lines<S> {
    pub(super) const fn new(source: S) -> Self {
        Self {
            source,
            line: Vec::new(),
            offset: 0,
            number: 0,
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut limited = self.source.by_ref().take(MAX_LINE_BYTES as u64);
        let read = limited.read_until(b'\n', &mut self.line)?;
        self.offset += read as u64;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.ends_with(b"\n") {
            return Ok(self.line.strip_suffix(b"\n").map(Line::Whole));
        }
        if read < MAX_LINE_BYTES {
            return Ok(Some(Line::Cut(&self.line)));
        }
        self.skip_to_end_of_line().map(Some)
    }

    fn skip_to_end_of_line(&mut self) -> io::Result<Line<'static>> {
        loop {
            let buffer = self.source.fill_buf()?;
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let (skipped, is_end) = (end.map_or(buffer.len(), |at| at + 1), end.is_some());
            self.source.consume(skipped);
            self.offset += skipped as u64;
            match (is_end, skipped) {
                (true, _) => return Ok(Line::TooLong),
                (false, 0) => return Ok(Line::Cut(&[])),
                (false, _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_or_cut_are_not_taken_for_lines() {
        let long = "x".repeat(3 * MAX_LINE_BYTES);
        let text = format!("a\n{long}\nb\nc");
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"a")));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"b")));
        assert_eq!(lines.next().unwrap(), Some(Line::Cut(b"c")));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!((lines.offset, lines.number), (text.len() as u64, 4));
        assert_eq!(
            Lines::new(long.as_bytes()).next().unwrap(),
            Some(Line::Cut(b""))
        );
    }
}
