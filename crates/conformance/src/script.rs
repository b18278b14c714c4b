//! Parts that scripts and records of all languages share: lines, comments, cases by name.

use pagetoll_units::budget::check_text;
use thiserror::Error;

/// A line of a script that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {problem}")]
pub struct ScriptError {
    /// Name of the script.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Problem and expectation.
    pub problem: String,
}

/// A case of any suite.
pub trait Scripted {
    /// Unique within its suite.
    fn name(&self) -> &str;
    /// One line on the behaviour that the case shows.
    fn about(&self) -> &str;
    /// The lines of the script.
    fn steps(&self) -> impl ExactSizeIterator<Item = &str>;
}

/// Parses a script line by line, without comments and empty lines; an error has the line's number.
pub(crate) fn read<C>(
    file: &str,
    text: &str,
    take: impl Fn(&str, &mut Vec<C>) -> Result<(), String>,
) -> Result<Vec<C>, ScriptError> {
    check_text(text).map_err(|error| ScriptError {
        file: file.to_owned(),
        line: 1,
        problem: error.to_string(),
    })?;
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

/// A file of cases.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// The cases of all scripts, in their order.
pub(crate) fn cases<C>(
    scripts: &[Script],
    parse: impl Fn(&str, &str) -> Result<Vec<C>, ScriptError>,
) -> Result<Vec<C>, ScriptError> {
    let mut cases = Vec::new();
    for script in scripts {
        cases.extend(parse(script.name, script.text)?);
    }
    Ok(cases)
}

/// Recorded answers to a case, a line for each step.
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
        const SCRIPTS: &[$crate::script::Script] = &[$($crate::script::Script {
            name: concat!($name, ".script"),
            text: include_str!(concat!("../../../", $folder, $name, ".script")),
        }),*];

        const RECORD: &str = include_str!(concat!("../../../", $folder, $record));

        impl $crate::Scripted for $case {
            fn name(&self) -> &str {
                &self.name
            }

            fn about(&self) -> &str {
                &self.about
            }

            fn steps(&self) -> impl ExactSizeIterator<Item = &str> {
                self.steps.iter().map(|step| step.text.as_str())
            }
        }

        /// All cases, in the scripts' order.
        ///
        /// # Errors
        /// A malformed script, which a test of this crate rules out.
        pub fn all() -> Result<Vec<$case>, $crate::ScriptError> {
            $crate::script::cases(SCRIPTS, $parse)
        }

        /// Answers of the real system to a case at the last recording, a line for each step.
        #[must_use]
        pub fn recorded(case: &str) -> Option<Vec<String>> {
            $crate::script::recorded(RECORD, case)
        }

        #[cfg(test)]
        fn assert_whole(at_least: usize) {
            $crate::script::tests::assert_whole(&all().unwrap(), recorded, at_least);
        }
    };
}
pub(crate) use suite;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::Scripted;

    /// At least so many cases; names are unique, and every case has a purpose, steps, and an answer for each step where
    /// it was recorded.
    pub(crate) fn assert_whole<C: Scripted>(
        cases: &[C],
        recorded: fn(&str) -> Option<Vec<String>>,
        at_least: usize,
    ) {
        let names: BTreeSet<_> = cases.iter().map(Scripted::name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= at_least, "only {} cases", cases.len());
        for case in cases {
            let (name, steps) = (case.name(), case.steps().len());
            assert!(!case.about().is_empty() && steps > 0, "{name}");
            let answers = recorded(name).map_or(steps, |answers| answers.len());
            assert_eq!(answers, steps, "{name}");
        }
    }
}
