//! What scripts and records of all languages have in common: lines, comments, cases by name.

use thiserror::Error;

/// A line of a script that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}")]
pub struct ScriptError {
    /// Name of the script.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

/// Parses a script line by line, without comments and empty lines; an error has the line's number.
pub(crate) fn read<C>(
    file: &str,
    text: &str,
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

/// Defines `all` and `recorded` of a suite: its scripts in order, `parse`d, and its record.
macro_rules! suite {
    ($case:ty, $parse:path, $folder:literal, $record:literal, [$($name:literal),* $(,)?]) => {
        const SCRIPTS: &[(&str, &str)] = &[$((
            concat!($name, ".script"),
            include_str!(concat!("../../../", $folder, $name, ".script")),
        )),*];

        const RECORD: &str = include_str!(concat!("../../../", $folder, $record));

        /// All cases, in the scripts' order.
        ///
        /// # Errors
        /// A malformed script, which a test of this crate rules out.
        pub fn all() -> Result<Vec<$case>, $crate::ScriptError> {
            $crate::script::cases(SCRIPTS, $parse)
        }

        /// What the real system answered to a case when it was last recorded, a line for each step.
        #[must_use]
        pub fn recorded(case: &str) -> Option<Vec<String>> {
            $crate::script::recorded(RECORD, case)
        }

        #[cfg(test)]
        fn assert_whole(at_least: usize) {
            let cases = all().unwrap();
            let summaries = cases.iter().map(|case| $crate::script::tests::Summary {
                name: &case.name,
                about: &case.about,
                steps: case.steps.len(),
                answers: recorded(&case.name).map(|answers| answers.len()),
            });
            $crate::script::tests::assert_whole(&summaries.collect::<Vec<_>>(), at_least);
        }
    };
}
pub(crate) use suite;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    /// What the cases of all suites have.
    pub(crate) struct Summary<'a> {
        pub(crate) name: &'a str,
        pub(crate) about: &'a str,
        pub(crate) steps: usize,
        pub(crate) answers: Option<usize>,
    }

    /// At least so many cases; names are unique, and every case has a purpose, steps, and an answer for each step where
    /// it was recorded.
    pub(crate) fn assert_whole(cases: &[Summary<'_>], at_least: usize) {
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= at_least, "only {} cases", cases.len());
        for case in cases {
            assert!(!case.about.is_empty() && case.steps > 0, "{}", case.name);
            assert_eq!(
                case.answers.unwrap_or(case.steps),
                case.steps,
                "{}",
                case.name
            );
        }
    }
}
