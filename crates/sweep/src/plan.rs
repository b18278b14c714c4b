//! A plan: axes of which every combination is a job, jobs that are added, and combinations that are left out.

mod form;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pagetoll_backend::{Stop, Stopped};
use pagetoll_units::budget::check_text;
use serde::de::Error as _;
use thiserror::Error;

use form::Form;

/// The axis that names the route; every job has one.
pub const ROUTE: &str = "route";
/// The axis that names the node which a job has to run on.
pub const HOST: &str = "host";

/// A plan of more jobs is refused, before any is made. Assumed: beyond what a cluster bills in a day.
pub const MOST_JOBS: usize = 100_000;

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// An option without a value: given or not.
    Flag(bool),
    /// An option with values: one or several, which all jobs of a plan share.
    Words(Arc<[String]>),
}

impl Value {
    /// One word.
    pub fn word(word: impl Into<String>) -> Self {
        Self::Words([word.into()].into())
    }
}

/// Settings of a job: values of options by their long names, the route and the host among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings(BTreeMap<String, Value>);

/// A plan that was read. Every key in it is a route, a host or one of the options that were allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The values that each axis takes.
    pub axes: BTreeMap<String, Vec<Value>>,
    /// Said by every job.
    pub options: Settings,
    /// Jobs beside those of the axes.
    pub include: Vec<Settings>,
    /// Combinations of the axes that have all of these are no jobs.
    pub exclude: Vec<Settings>,
}

/// Rejection of a plan.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file is not TOML, or not of the form of a plan. The message has line and column.
    #[error("{file}: {source}")]
    Form {
        /// The file's name.
        file: String,
        /// Error of the parser.
        source: Box<toml::de::Error>,
    },
    /// A key has no meaning, or not there.
    #[error("{file}: line {line}: {key}: {problem}")]
    Key {
        /// The file's name.
        file: String,
        /// Line of the key, from 1.
        line: usize,
        /// The key with its table, such as `axes.kernel`.
        key: String,
        /// Problem and expectation.
        problem: String,
    },
    /// Axes without a combination, and nothing included.
    #[error(
        "{file}: no job is left; expected [axes] with at least one combination that no [[exclude]] takes away, or an [[include]]"
    )]
    Empty {
        /// The file's name.
        file: String,
    },
    /// More than [`MOST_JOBS`].
    #[error(
        "{file}: has {number} jobs ({sum}); expected at most {MOST_JOBS}, counted before [[exclude]]"
    )]
    TooMany {
        /// The file's name.
        file: String,
        /// Number of jobs.
        number: usize,
        /// The axes, each with the number of its values, and what is included.
        sum: String,
    },
    /// The work was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A job without a route.
    #[error("{file}: {job}: has no route; expected route in [axes], [options] or [[include]]")]
    NoRoute {
        /// The file's name.
        file: String,
        /// Settings of the job.
        job: String,
    },
}

impl Plan {
    /// Reads a plan. `options` are the long names, without dashes, that may be used.
    ///
    /// # Errors
    /// [`PlanError::Form`], [`PlanError::Key`].
    pub fn parse(file: &str, text: &str, options: &[String]) -> Result<Self, PlanError> {
        let short = check_text(text).map_err(toml::de::Error::custom);
        let form: Form = short
            .and_then(|()| toml::from_str(text))
            .map_err(|source| PlanError::Form {
                file: file.to_owned(),
                source: Box::new(source),
            })?;
        form.into_plan(&form::Reader {
            file,
            text,
            options,
        })
    }

    /// The jobs of the plan: combinations of the axes in their order, the last axis by name first, then what is included.
    /// No two say the same.
    ///
    /// # Errors
    /// [`PlanError::TooMany`], [`PlanError::Empty`], [`PlanError::NoRoute`], [`PlanError::Stopped`].
    pub fn jobs(&self, file: &str, stop: &Stop) -> Result<Vec<Settings>, PlanError> {
        self.check_number(file)?;
        let included = self.include.iter().map(|job| self.options.with(job));
        let (mut seen, mut jobs) = (BTreeSet::new(), Vec::new());
        for job in self.combinations(stop)?.into_iter().chain(included) {
            stop.check()?;
            if seen.insert(job.clone()) {
                jobs.push(job);
            }
        }
        if jobs.is_empty() {
            let file = file.to_owned();
            return Err(PlanError::Empty { file });
        }
        match jobs.iter().find(|job| job.route().is_none()) {
            Some(job) => Err(PlanError::NoRoute {
                file: file.to_owned(),
                job: job.to_string(),
            }),
            None => Ok(jobs),
        }
    }

    /// Counts the jobs without making them.
    fn check_number(&self, file: &str) -> Result<(), PlanError> {
        let along = self.axes.values().map(Vec::len);
        let combinations = along.reduce(usize::saturating_mul).unwrap_or_default();
        let number = combinations.saturating_add(self.include.len());
        if number <= MOST_JOBS {
            return Ok(());
        }
        let axes = self.axes.iter();
        let factors: Vec<_> = axes
            .map(|(axis, values)| format!("{axis} {}", values.len()))
            .collect();
        let combined = (combinations > 0).then(|| factors.join(" x "));
        let included = self.include.len();
        let included = (included > 0).then(|| format!("{included} included"));
        let terms: Vec<_> = combined.into_iter().chain(included).collect();
        Err(PlanError::TooMany {
            file: file.to_owned(),
            number,
            sum: terms.join(" + "),
        })
    }

    fn combinations(&self, stop: &Stop) -> Result<Vec<Settings>, Stopped> {
        if self.axes.is_empty() {
            return Ok(Vec::new());
        }
        let mut jobs = vec![self.options.clone()];
        for (axis, values) in &self.axes {
            let along = |job: &Settings| values.iter().map(|value| job.and(axis, value)).collect();
            jobs = jobs.iter().flat_map::<Vec<_>, _>(along).collect();
        }
        let mut left = Vec::new();
        for job in jobs {
            stop.check()?;
            let has = |(name, value)| job.0.get(name) == Some(value);
            if !self
                .exclude
                .iter()
                .any(|excluded| excluded.0.iter().all(has))
            {
                left.push(job);
            }
        }
        Ok(left)
    }
}

impl Settings {
    /// Settings of these values.
    pub fn new(values: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// Settings as a command line says them: a route, and options with the words that follow each.
    ///
    /// # Errors
    /// A word that follows no option.
    pub fn from_words(route: &str, words: &[String]) -> Result<Self, String> {
        let mut settings = Self::new([(ROUTE.to_owned(), Value::word(route))]);
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let option = word.strip_prefix("--").ok_or_else(|| word.clone())?;
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Value::word(value)),
                None => match words.next_if(|next| !next.starts_with("--")) {
                    Some(value) => (option, Value::word(value)),
                    None => (option, Value::Flag(true)),
                },
            };
            match (settings.0.get_mut(name), value) {
                (Some(Value::Words(all)), Value::Words(more)) => {
                    *all = all.iter().chain(&*more).cloned().collect();
                }
                (_, value) => {
                    settings.0.insert(name.to_owned(), value);
                }
            }
        }
        Ok(settings)
    }

    /// The options and their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The route that is billed.
    #[must_use]
    pub fn route(&self) -> Option<&str> {
        self.word(ROUTE)
    }

    /// The node that the job has to run on; `None` is any.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.word(HOST)
    }

    /// The arguments of the program that make the bill, as JSON.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["bill".to_owned()];
        arguments.extend(self.route().map(str::to_owned));
        let options = self
            .iter()
            .filter(|(name, _)| ![ROUTE, HOST].contains(name));
        for (name, value) in options {
            let option = format!("--{name}");
            match value {
                Value::Flag(true) => arguments.push(option),
                Value::Flag(false) => {}
                Value::Words(words) => {
                    let said = |word: &String| [option.clone(), word.clone()];
                    arguments.extend(words.iter().flat_map(said));
                }
            }
        }
        arguments.extend(["--format", "json"].map(str::to_owned));
        arguments
    }

    fn word(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Value::Words(words)) => words.first().map(String::as_str),
            _ => None,
        }
    }

    /// A copy with one more setting, which replaces one of the same name.
    #[must_use]
    pub fn and(&self, name: &str, value: &Value) -> Self {
        let mut settings = self.clone();
        settings.0.insert(name.to_owned(), value.clone());
        settings
    }

    fn with(&self, others: &Self) -> Self {
        let mut settings = self.clone();
        settings.0.extend(others.0.clone());
        settings
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(given) => write!(f, "{given}"),
            Self::Words(words) => f.write_str(&words.join(",")),
        }
    }
}

impl std::fmt::Display for Settings {
    /// `arch = arm64, route = pin`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said: Vec<_> = self
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        f.write_str(&said.join(", "))
    }
}

#[cfg(test)]
mod tests;
