//! Text as people paste it: quoted in a mail, numbered by grep, fenced, below the prompt of a shell.
//!
//! Lines keep their numbers: what is left out leaves an empty one.

use std::borrow::Cow;

use crate::lines::first_lines;

/// Lines by which a form is known, and of which each has to be numbered where any is.
const LINES: usize = 64;

/// A text without what was around it.
pub(crate) struct Unwrapped {
    pub(crate) text: Vec<u8>,
    /// Prompts and fences.
    pub(crate) left_out: u64,
}

/// Recognises, by its first bytes, text that something is around.
pub(crate) fn is_wrapped(head: &[u8]) -> bool {
    let mut lines = first_lines(head).take(LINES);
    !head.contains(&0)
        && (head.starts_with(BYTE_ORDER_MARK)
            || are_numbered(head)
            || lines
                .any(|line| line.starts_with('>') || is_left_out(line) || line.contains(NO_BREAK)))
}

/// Takes off, of each line, quotation marks and numbers, and leaves out prompts and fences.
pub(crate) fn unwrap(bytes: &[u8]) -> Unwrapped {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let numbered = are_numbered(bytes);
    let mut text = Vec::with_capacity(bytes.len());
    let mut left_out = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let line = unquoted(&line);
        let line = match numbered {
            true => without_number(line).unwrap_or(line),
            false => line,
        };
        if is_left_out(line) {
            left_out += 1;
            text.push(b'\n');
        } else {
            let line: Cow<'_, str> = match line.contains(NO_BREAK) {
                true => line.replace(NO_BREAK, " ").into(),
                false => line.into(),
            };
            text.extend(line.as_bytes());
        }
    }
    Unwrapped { text, left_out }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
const NO_BREAK: char = '\u{a0}';

/// `> > line`: no record begins so.
fn unquoted(line: &str) -> &str {
    let text = line.trim_start_matches('>');
    if text.len() == line.len() {
        return line;
    }
    let text = text.strip_prefix(' ').unwrap_or(text);
    match text.starts_with('>') {
        true => unquoted(text),
        false => text,
    }
}

/// `12:line` or `12-line`, as `grep -n` has it.
fn without_number(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = text.len() < line.len();
    is_number.then(|| text.strip_prefix([':', '-'])).flatten()
}

fn are_numbered(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES).peekable();
    lines.peek().is_some() && lines.all(|line| without_number(unquoted(line)).is_some())
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
        let unwrapped = unwrap(pasted.as_bytes());
        let text = String::from_utf8(unwrapped.text).unwrap();
        (text, unwrapped.left_out)
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
        ] {
            assert_eq!(text(pasted), (expected.to_owned(), left_out), "{pasted:?}");
        }
    }

    #[test]
    fn records_are_left_as_they_are() {
        for line in [
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
