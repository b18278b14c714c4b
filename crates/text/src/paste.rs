//! Text as people paste it: quoted in a mail, numbered by grep, fenced, below the prompt of a shell.
//!
//! Lines keep their numbers: what is left out leaves an empty one.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::lines::first_lines;
use crate::position::{Position, excerpt};

/// Lines by which a form is known, and of which each has to be numbered where any is.
const LINES: usize = 64;

/// Lines that are left out of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of lines.
    pub lines: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<NumberedLine>,
}

/// The beginning of a line, and its number, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NumberedLine {
    line: usize,
    text: String,
}

impl NumberedLine {
    /// The line of this number.
    #[must_use]
    pub fn new(line: usize, text: &str) -> Self {
        Self {
            line,
            text: excerpt(text),
        }
    }

    /// Its position.
    #[must_use]
    pub const fn place(&self) -> Position {
        Position::Line(self.line)
    }
}

impl fmt::Display for NumberedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}`", self.line, self.text)
    }
}

impl LeftOut {
    /// True if no line is.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.lines == 0
    }

    /// Counts a line.
    pub fn add(&mut self, place: Position, line: &str) {
        self.add_lines(place, 1, line);
    }

    /// Counts lines that follow each other, by the place and the text of the first.
    pub fn add_lines(&mut self, place: Position, lines: u64, line: &str) {
        let Position::Line(number) = place else {
            return;
        };
        self.lines += lines;
        if self.first.as_ref().is_none_or(|first| number < first.line) {
            self.first = Some(NumberedLine::new(number, line.trim()));
        }
    }

    /// Adds other lines of the same text.
    pub fn extend(&mut self, other: Self) {
        self.lines = self.lines.saturating_add(other.lines);
        self.first = self.first.take().into_iter().chain(other.first).min();
    }
}

/// Recognises, by its first bytes, text that something is around.
#[must_use]
pub fn is_wrapped(head: &[u8]) -> bool {
    prefixes(head).is_some()
}

/// The prefixes of a text that something is around, which may be none.
fn prefixes(text: &[u8]) -> Option<Vec<Prefix>> {
    let unmarked = text.strip_prefix(BYTE_ORDER_MARK);
    let prefixes = Prefix::all_of(unmarked.unwrap_or(text));
    let has_entity = |line: &str| ENTITIES.iter().any(|(entity, _)| line.contains(entity));
    let mut lines = first_lines(text).take(LINES);
    let is_wrapped = unmarked.is_some()
        || !prefixes.is_empty()
        || lines.any(|line| is_left_out(line) || has_entity(line));
    is_wrapped.then_some(prefixes)
}

/// Takes off, of each line, what is in front of it, and leaves out prompts and fences.
#[must_use]
pub fn unwrap(text: Vec<u8>) -> (Vec<u8>, LeftOut) {
    let mut left_out = LeftOut::default();
    let Some(prefixes) = prefixes(&text) else {
        return (text, left_out);
    };
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    let mut unwrapped = Vec::with_capacity(text.len());
    for (number, bytes) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let line = String::from_utf8_lossy(bytes);
        let line = decoded(&line);
        let line = prefixes
            .iter()
            .fold(&*line, |line, prefix| prefix.behind(line).unwrap_or(line));
        if is_left_out(line) {
            left_out.add(Position::Line(number), line);
            unwrapped.push(b'\n');
        } else {
            unwrapped.extend(line.as_bytes());
        }
    }
    (unwrapped, left_out)
}

/// A line without the entities of a page.
fn decoded(line: &str) -> Cow<'_, str> {
    let mut line = Cow::Borrowed(line);
    for (entity, text) in ENTITIES {
        if line.contains(entity) {
            line = line.replace(entity, text).into();
        }
    }
    line
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Entities of pages; the ampersand is decoded last. A no-break space is a space.
const ENTITIES: [(&str, &str); 6] = [
    ("\u{a0}", " "),
    ("&nbsp;", " "),
    ("&gt;", ">"),
    ("&lt;", "<"),
    ("&quot;", "\""),
    ("&amp;", "&"),
];

/// A prefix of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    /// `> > `: no record begins so.
    Quote,
    /// `12:` or `12-`, as `grep -n` has it.
    Number,
    /// `trace.txt:`, `trace.txt:12:`, as grep has them of a file.
    File,
    /// `# `, `| `, `// `: a comment, or a block of a page.
    Mark,
    /// `[   12.345678] `, `Nov 27 10:00:00 host prog[12]: `, `2026-11-27T10:00:00Z `: a time of a log.
    Time,
}

impl Prefix {
    const OF_EACH_LINE: [Self; 4] = [Self::Time, Self::Number, Self::File, Self::Mark];
    /// Prefixes that a line has at most, one in front of the other.
    const MOST: usize = 4;

    /// The prefixes of a text by its first lines, the outermost first.
    fn all_of(text: &[u8]) -> Vec<Self> {
        let lines = text
            .split(|&byte| byte == b'\n')
            .map_while(|line| str::from_utf8(line).ok());
        let lines = lines.filter(|line| !line.trim().is_empty()).take(LINES);
        let mut lines: Vec<_> = lines.map(decoded).collect();
        let mut prefixes = Vec::new();
        while let Some(prefix) = Self::of(&lines)
            && prefixes.len() < Self::MOST
        {
            for line in &mut lines {
                *line = prefix.behind(line).unwrap_or(line).to_owned().into();
            }
            prefixes.push(prefix);
        }
        prefixes
    }

    /// The prefix that one of the lines has, of a quotation, or all of them.
    fn of(lines: &[Cow<'_, str>]) -> Option<Self> {
        if lines.iter().any(|line| Self::Quote.behind(line).is_some()) {
            return Some(Self::Quote);
        }
        let has =
            |prefix: &Self, line: &str| line.trim().is_empty() || prefix.behind(line).is_some();
        let are = |prefix: &Self| lines.iter().all(|line| has(prefix, line));
        let mut written = lines.iter().filter(|line| !line.trim().is_empty());
        written.next()?;
        Self::OF_EACH_LINE.into_iter().find(are)
    }

    /// The line behind it.
    fn behind(self, line: &str) -> Option<&str> {
        match self {
            Self::Quote => without_quote(line),
            Self::Number => without_number(line),
            Self::File => without_file(line),
            Self::Mark => without_mark(line),
            Self::Time => without_time(line),
        }
    }
}

fn without_quote(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('>');
    if text.len() == line.len() {
        return None;
    }
    let text = text.strip_prefix(' ').unwrap_or(text);
    without_quote(text).or(Some(text))
}

fn without_number(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = text.len() < line.len();
    let is_date = line
        .get(..10)
        .is_some_and(|date| date.matches('-').count() == 2);
    let rest = text.strip_prefix([':', '-'])?;
    (is_number && !is_date).then_some(rest)
}

/// A path with an extension: names of threads have none.
fn without_file(line: &str) -> Option<&str> {
    let (path, rest) = line.split_once(':')?;
    let (_, extension) = path.rsplit_once('.')?;
    let is_path = path.chars().all(|c| c.is_ascii_graphic())
        && (1..=5).contains(&extension.len())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic());
    is_path.then(|| without_number(rest).unwrap_or(rest))
}

fn without_mark(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(['#', '|', ';', '*', '/', '%']);
    (text.len() < line.len()).then(|| text.strip_prefix(' ').unwrap_or(text))
}

fn without_time(line: &str) -> Option<&str> {
    let is_time = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_digit() || ":.,+-TZ ".contains(c))
            && text.chars().any(|c| c.is_ascii_digit())
            && text.contains(['.', ':'])
    };
    let line = line.trim_start();
    if let Some((time, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        return is_time(time).then_some(rest);
    }
    let (of_syslog, rest) = line.split_at_checked("Nov 27 10:00:00 ".len())?;
    let of_syslog = of_syslog.split_at_checked(3)?;
    if of_syslog.0.chars().all(|c| c.is_ascii_alphabetic()) && is_time(of_syslog.1) {
        let (_, rest) = rest.split_once(' ')?;
        let at_end = rest.trim_end().ends_with(':').then_some("");
        return rest.split_once(": ").map(|(_, rest)| rest).or(at_end);
    }
    let (date, rest) = line.split_once(['T', ' '])?;
    let is_date =
        date.len() == 10 && date.matches('-').count() == 2 && is_time(&format!("{date}:"));
    let at_end = (!rest.contains(',')).then_some((rest.trim_end(), ""));
    let (time, rest) = rest.split_once(' ').or(at_end)?;
    (is_date && is_time(time)).then_some(rest)
}

/// A fence of Markdown, the prompt of a shell with or without a command, or a mark for lines that were cut.
fn is_left_out(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("```") || line.starts_with("~~~") || is_prompt(line) || is_elision(line)
}

/// `[...]`, `..`, `<snip>`.
fn is_elision(line: &str) -> bool {
    let text = line.trim_matches(['[', ']', '<', '>', '(', ')', ' ']);
    let dots = text
        .chars()
        .filter(|&c| c == '.' || c == '\u{2026}')
        .count();
    matches!(text, "snip" | "cut") || dots > 0 && dots == text.chars().count()
}

/// `[root@host ~]# virsh ..`, `user@host:~$ cat ..`, `$ cat ..`.
fn is_prompt(line: &str) -> bool {
    let mark = line.find("# ").or_else(|| line.find("$ "));
    let before = match mark {
        Some(mark) => &line[..mark],
        None => line.strip_suffix(['#', '$']).unwrap_or_default(),
    };
    let names_a_host = before.contains('@') && !before.contains(": ");
    line.starts_with("$ ") || names_a_host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pasted: &str) -> (String, u64) {
        assert!(is_wrapped(pasted.as_bytes()), "{pasted}");
        let (text, left_out) = unwrap(pasted.into());
        (String::from_utf8(text).unwrap(), left_out.lines)
    }

    #[test]
    fn marks_are_taken_off_and_lines_keep_their_numbers() {
        for (pasted, expected, left_out) in [
            ("> a\n>> b\n> > c\n>\n", "a\nb\nc\n\n", 0),
            ("12:a\n13-b: 1\n", "a\nb: 1\n", 0),
            ("```text\n a\n```\n", "\n a\n\n", 2),
            ("$ cat trace\na\n", "\na\n", 1),
            ("[root@host1 ~]# virsh domstats\na\n", "\na\n", 1),
            ("me@host:~$ x\r\na\r\n", "\na\r\n", 1),
            ("a\nroot@host1:~#", "a\n\n", 1),
            ("a\n [...]\n <snip>\nb\n", "a\n\n\nb\n", 2),
            ("\u{feff}a\n", "a\n", 0),
            ("a\u{a0}b\n", "a b\n", 0),
            ("> 1:a\n> 2:b", "a\nb", 0),
            ("trace.txt:12:a\ntrace.txt:13-b\n", "a\nb\n", 0),
            ("# a\n#\n# b\n", "a\n\nb\n", 0),
            ("[   12.345678] a\n[   12.345679]  b\n", "a\n b\n", 0),
            (
                "Nov 27 10:00:00 h x[1]: a\nNov  7 10:00:00 h kernel: b\n",
                "a\nb\n",
                0,
            ),
            (
                "2026-11-27T10:00:00.5Z a\n2026-11-27T10:00:01Z b\n",
                "a\nb\n",
                0,
            ),
            ("a &lt;idle&gt; &amp;gt;\n", "a <idle> &gt;\n", 0),
        ] {
            assert_eq!(text(pasted), (expected.to_owned(), left_out), "{pasted:?}");
        }
    }

    #[test]
    fn records_are_left_as_they_are() {
        for line in [
            "  12.3 us | f();\n",
            "1.5: kvm_exit: reason HLT\n",
            "CPU 0/KVM-1 [001] 5.25: kvm_exit: reason HLT\n",
            "[001] 5.25: kvm_exit: reason HLT\n",
            "kvm/exits:12\n",
            "2026-11-26 00:41:41,5,7\n",
            "# tracer: function_graph\n 0)   1.000 us |  f();\n",
            " 0)   ==========> |\n",
            "qemu@[a]-12 [001] 5.25: kvm_exit: reason 1 # 2 $ 3\n",
            "12\n13\n",
            "12:a\nb\n",
        ] {
            assert!(!is_wrapped(line.as_bytes()), "{line}");
        }
    }
}
