//! The TOML of a plan: what it may hold, and where a key that it may not hold is.

use std::collections::BTreeMap;

use pagetoll_bill::names::closest;
use serde::Deserialize;
use toml::Spanned;

use super::{HOST, Plan, PlanError, ROUTE, Settings, Value};

type Table<V> = BTreeMap<Spanned<String>, V>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    #[serde(default)]
    axes: Table<Vec<ValueForm>>,
    #[serde(default)]
    options: Table<ValueForm>,
    #[serde(default)]
    include: Vec<Table<ValueForm>>,
    #[serde(default)]
    exclude: Vec<Table<ValueForm>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text, a whole number, true, false, or a list of texts and numbers"
)]
enum ValueForm {
    Flag(bool),
    Word(Word),
    Words(Vec<Word>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(i64),
    Text(String),
}

impl From<ValueForm> for Value {
    fn from(form: ValueForm) -> Self {
        match form {
            ValueForm::Flag(given) => Self::Flag(given),
            ValueForm::Word(word) => Self::word(word),
            ValueForm::Words(words) => Self::Words(words.into_iter().map(String::from).collect()),
        }
    }
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        match word {
            Word::Number(number) => number.to_string(),
            Word::Text(text) => text,
        }
    }
}

/// The file that a plan is read from, and the options that it may use.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) options: &'a [String],
}

impl Form {
    pub(super) fn into_plan(self, reader: &Reader<'_>) -> Result<Plan, PlanError> {
        let options = reader.settings("options", self.options)?;
        let mut axes = BTreeMap::new();
        for (axis, values) in self.axes {
            reader.check("axes", &axis)?;
            if options.0.contains_key(axis.get_ref()) {
                return Err(reader.error("axes", &axis, "is in [options], too; expected it once"));
            }
            if values.is_empty() {
                return Err(reader.error("axes", &axis, "has no value; expected at least one"));
            }
            let values: Vec<_> = values.into_iter().map(Value::from).collect();
            for value in &values {
                reader.check_name("axes", &axis, value)?;
            }
            axes.insert(axis.into_inner(), values);
        }
        let all = |table: &str, settings: Vec<Table<ValueForm>>| {
            let each = settings.into_iter().map(|one| reader.settings(table, one));
            each.collect::<Result<Vec<_>, _>>()
        };
        Ok(Plan {
            axes,
            options,
            include: all("include", self.include)?,
            exclude: all("exclude", self.exclude)?,
        })
    }
}

impl Reader<'_> {
    fn settings(&self, table: &str, form: Table<ValueForm>) -> Result<Settings, PlanError> {
        let mut settings = Settings::default();
        for (key, value) in form {
            self.check(table, &key)?;
            let value = value.into();
            self.check_name(table, &key, &value)?;
            settings.0.insert(key.into_inner(), value);
        }
        Ok(settings)
    }

    fn check(&self, table: &str, key: &Spanned<String>) -> Result<(), PlanError> {
        let known = self.options.iter().map(String::as_str);
        let mut known = known.chain([ROUTE, HOST]);
        let name = key.get_ref().as_str();
        if known.clone().any(|option| option == name) {
            return Ok(());
        }
        let meant = closest(name, &mut known).map_or(String::new(), |option| {
            format!(" (did you mean '{option}'?)")
        });
        let problem = format!(
            "is not an option of a bill that a plan may use{meant}; expected route, host, or a long option of `pagetoll bill ROUTE` that writes no file"
        );
        Err(self.error(table, key, &problem))
    }

    /// A job has one route and one host.
    fn check_name(
        &self,
        table: &str,
        key: &Spanned<String>,
        value: &Value,
    ) -> Result<(), PlanError> {
        let is_name = matches!(value, Value::Words(words) if words.len() == 1);
        match is_name || ![ROUTE, HOST].contains(&key.get_ref().as_str()) {
            true => Ok(()),
            false => Err(self.error(table, key, &format!("is {value}; expected one name"))),
        }
    }

    fn error(&self, table: &str, key: &Spanned<String>, problem: &str) -> PlanError {
        let before = self.text.get(..key.span().start).unwrap_or_default();
        PlanError::Key {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            key: format!("{table}.{}", key.get_ref()),
            problem: problem.to_owned(),
        }
    }
}
