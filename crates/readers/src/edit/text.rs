//! Words and lines of a text: replaced, repeated, swapped, cut.

use std::borrow::Cow;

use arbitrary::{Result, Unstructured};

use super::WORDS;

pub(super) fn edited(seed: &[u8], script: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let seed = String::from_utf8_lossy(seed);
    let mut lines: Vec<String> = seed.split('\n').map(str::to_owned).collect();
    while !script.is_empty() && !lines.is_empty() {
        let at = script.choose_index(lines.len())?;
        change(&mut lines, at, script)?;
    }
    Ok(lines.join("\n").into_bytes())
}

fn change(lines: &mut Vec<String>, at: usize, script: &mut Unstructured<'_>) -> Result<()> {
    match script.int_in_range(0..=6u8)? {
        0..=2 => lines[at] = with_another_word(&lines[at], script)?,
        3 => drop(lines.remove(at)),
        4 => lines.insert(at, lines[at].clone()),
        5 => {
            let other = script.choose_index(lines.len())?;
            lines.swap(at, other);
        }
        _ => {
            let length = usize::from(script.arbitrary::<u8>()?);
            lines[at] = lines[at].chars().take(length).collect();
        }
    }
    Ok(())
}

/// Replaces one run of letters and digits.
fn with_another_word(line: &str, script: &mut Unstructured<'_>) -> Result<String> {
    let words = runs(line);
    if words.is_empty() {
        return Ok(line.to_owned());
    }
    let at = script.choose_index(words.len())?;
    let other = match script.int_in_range(0..=3u8)? {
        0 => Cow::Owned(script.arbitrary::<i64>()?.to_string()),
        1 => Cow::Borrowed(script.arbitrary::<&str>()?),
        2 => Cow::Borrowed(words[script.choose_index(words.len())?]),
        _ => Cow::Borrowed(*script.choose(&WORDS)?),
    };
    Ok([&words[..at].concat(), &*other, &words[at + 1..].concat()].concat())
}

/// The line in runs of letters and digits, and the characters between them.
fn runs(line: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = match first.is_alphanumeric() {
            true => rest.find(|c: char| !c.is_alphanumeric()),
            false => Some(first.len_utf8()),
        };
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        runs.push(run);
        rest = after;
    }
    runs
}
