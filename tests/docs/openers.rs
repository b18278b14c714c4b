//! Doc comments that open with a headless relative or a fronted "of", where English wants a noun or a verb.

use std::fs;

use libtest_mimic::Failed;

use super::page::{files, root};

/// Present number; a commit that mends some lowers it.
const LEFT: usize = 125;
const OPENERS: [&str; 8] = [
    "What", "Whether", "How", "Those", "The same", "Of", "As", "All that",
];

/// Fails where there are more than [`LEFT`], and where there are fewer, so that the number only falls.
pub(crate) fn only_fall() -> Result<(), Failed> {
    let mut found = Vec::new();
    for path in files("crates", "rs")? {
        let text = fs::read_to_string(root().join(&path))?;
        found.extend(openers(&text).map(|(line, text)| format!("{path}:{line}: {text}")));
    }
    if found.len() == LEFT {
        return Ok(());
    }
    let listed = found.join("\n");
    let count = found.len();
    Err(match count > LEFT {
        true => format!(
            "{count} doc comments open with {OPENERS:?}; expected at most {LEFT}:\n{listed}"
        ),
        false => format!("only {count} doc comments open with {OPENERS:?}: set LEFT to {count}"),
    }
    .into())
}

/// First lines of doc comments with such an opener, with their numbers.
fn openers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mark = |line: &str| {
        ["///", "//!"]
            .into_iter()
            .find(|mark| line.starts_with(mark))
    };
    let mut last = None;
    let lines = text.lines().map(str::trim).enumerate();
    lines.filter_map(move |(number, line)| {
        let begins = mark(line).is_some() && mark(line) != last;
        last = mark(line);
        let said = line.get(3..).filter(|_| begins)?.trim();
        let opens = |opener: &&str| {
            let rest = said.strip_prefix(*opener);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        };
        OPENERS.iter().any(opens).then_some((number + 1, said))
    })
}
