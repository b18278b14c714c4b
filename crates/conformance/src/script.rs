//! What every script and every record looks like, whatever its language: lines, comments, and cases by name.

use crate::parse::ScriptError;

/// Takes a script's lines up one by one, without comments and empty ones, and says in which one something is wrong.
pub(crate) fn read<C>(
    (file, text): (&str, &str),
    take: impl Fn(&str, &mut Vec<C>) -> Result<(), String>,
) -> Result<Vec<C>, ScriptError> {
    let mut cases = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            take(line, &mut cases).map_err(|problem| ScriptError {
                file: file.to_owned(),
                line: number,
                problem,
            })?;
        }
    }
    Ok(cases)
}

/// The cases of all scripts, in their order.
pub(crate) fn cases<C>(
    scripts: &[(&str, &str)],
    parse: impl Fn(&str, &str) -> Result<Vec<C>, ScriptError>,
) -> Result<Vec<C>, ScriptError> {
    let mut cases = Vec::new();
    for (name, text) in scripts {
        cases.extend(parse(name, text)?);
    }
    Ok(cases)
}

/// What was recorded of a case, a line for each step.
pub(crate) fn recorded(record: &str, case: &str) -> Option<Vec<String>> {
    let mut lines = record
        .lines()
        .skip_while(|line| line.strip_prefix("case ") != Some(case));
    lines.next()?;
    let answers = lines.take_while(|line| line.starts_with("  "));
    Some(answers.map(|line| line.trim().to_owned()).collect())
}
