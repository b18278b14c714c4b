//! Words and lines of a text: replaced, repeated, swapped, cut.

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
    let mut words: Vec<String> = runs(line);
    if words.is_empty() {
        return Ok(line.to_owned());
    }
    let at = script.choose_index(words.len())?;
    words[at] = match script.int_in_range(0..=3u8)? {
        0 => script.arbitrary::<i64>()?.to_string(),
        1 => script.arbitrary::<&str>()?.to_owned(),
        2 => words[script.choose_index(words.len())?].clone(),
        _ => (*script.choose(&WORDS)?).to_owned(),
    };
    Ok(words.concat())
}

/// The line in runs of letters and digits, and the characters between them.
fn runs(line: &str) -> Vec<String> {
    let mut runs: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in line.chars() {
        let word = c.is_alphanumeric();
        match runs.last_mut() {
            Some(run) if word && in_word => run.push(c),
            _ => runs.push(c.to_string()),
        }
        in_word = word;
    }
    runs
}
