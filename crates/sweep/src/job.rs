//! A job: an order of a bill, and its id, which follows from everything that the bill follows from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{Settings, Value};

/// Version of the input of ids: a store of another version has other ids.
const SCHEMA: &str = "pagetoll.store/1";
/// Bytes of a digest that are in an id.
const ID_BYTES: usize = 8;

/// Something that a bill is made from, beside its options.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// A package's name, or the option that names a file.
    pub name: String,
    /// A package's version; empty for a file.
    pub version: String,
    /// SHA-256 of the package or of what the file holds, lower-case hexadecimal.
    pub sha256: String,
}

/// 16 hexadecimal digits, of a SHA-256 over options, inputs and the program's version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct JobId(String);

/// One bill of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name of its bill in a store.
    pub id: JobId,
    /// Options of the bill.
    pub settings: Settings,
}

impl Job {
    /// A job of these settings, which makes its bill from these inputs by this version of pagetoll.
    #[must_use]
    pub fn new(settings: Settings, inputs: &[Input], version: &str) -> Self {
        let mut inputs = inputs.to_vec();
        inputs.sort();
        let mut parts = vec![SCHEMA, version, "options"];
        for (name, value) in settings.iter() {
            match value {
                // Equal to an absent option.
                Value::Flag(false) => {}
                Value::Flag(true) => parts.extend(["flag", name]),
                Value::Words(words) => {
                    let words = words.iter().flat_map(|word| ["word", name, word]);
                    parts.extend(words);
                }
            }
        }
        parts.push("inputs");
        for input in &inputs {
            parts.extend([&input.name, &input.version, &input.sha256].map(String::as_str));
        }
        // Strings in a list are JSON's, whatever they hold.
        let listed = serde_json::to_vec(&parts).unwrap_or_default();
        let digest = Sha256::digest(listed);
        let bytes = digest.iter().take(ID_BYTES);
        let id = JobId(bytes.map(|byte| format!("{byte:02x}")).collect());
        Self { id, settings }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for JobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match text.len() == 2 * ID_BYTES && text.chars().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected an id of 16 lower-case hexadecimal digits".to_owned()),
        }
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        let values = values.iter();
        Settings::new(values.map(|(name, word)| ((*name).to_owned(), Value::word(*word))))
    }

    fn input(name: &str, version: &str, sha256: &str) -> Input {
        let [name, version, sha256] = [name, version, sha256].map(str::to_owned);
        Input {
            name,
            version,
            sha256,
        }
    }

    #[test]
    fn the_id_of_a_job_does_not_change() {
        let job = Job::new(
            settings(&[("route", "unmap"), ("on", "sim")]),
            &[input("costs", "", "ab")],
            "0.1.0",
        );
        assert_eq!(job.id.to_string(), "665631be174afec7");
    }

    #[test]
    fn a_flag_that_is_not_given_is_no_part_of_the_id_and_every_input_is() {
        let base = settings(&[("route", "pin")]);
        let id = |settings: &Settings, inputs: &[Input]| Job::new(settings.clone(), inputs, "1").id;
        let flag = |given| {
            let flag = ("profile".to_owned(), Value::Flag(given));
            Settings::new(
                base.iter()
                    .map(|(n, v)| (n.to_owned(), v.clone()))
                    .chain([flag]),
            )
        };
        assert_eq!(id(&flag(false), &[]), id(&base, &[]));
        assert_ne!(id(&flag(true), &[]), id(&base, &[]));
        let inputs = [input("a", "1", "x"), input("b", "1", "y")];
        let reversed = [inputs[1].clone(), inputs[0].clone()];
        assert_eq!(id(&base, &inputs), id(&base, &reversed), "in any order");
        for other in [
            input("c", "1", "x"),
            input("a", "2", "x"),
            input("a", "1", "z"),
        ] {
            assert_ne!(id(&base, &[other, inputs[1].clone()]), id(&base, &inputs));
        }
        assert_ne!(Job::new(base.clone(), &[], "2").id, id(&base, &[]));
    }

    #[test]
    fn an_id_that_is_none_cannot_name_a_file() {
        for bad in [
            "",
            "../../etc/passwd",
            "0123456789abcdeF",
            "0123456789abcde",
        ] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
        assert!("0123456789abcdef".parse::<JobId>().is_ok());
    }

    proptest! {
        #[test]
        fn jobs_that_say_different_things_have_different_ids(
            a in proptest::collection::btree_map("[a-c]{1,2}", "[a-c]{0,2}", 0..3),
            b in proptest::collection::btree_map("[a-c]{1,2}", "[a-c]{0,2}", 0..3),
        ) {
            let of = |said: &std::collections::BTreeMap<String, String>| {
                let said: Vec<_> = said.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                Job::new(settings(&said), &[], "1").id
            };
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }
    }
}
