//! Selection of an observation's items for a condition.

use std::fmt;
use std::str::FromStr;

use pagetoll_observation::{Group, Item, Recorded};
use serde::de::value::{Error as Unknown, StrDeserializer};
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};

/// Stands for all names of a group.
const ALL: &str = "*";

/// `GROUP/NAME`, or `GROUP/*`: groups as JSON names them, such as `traps/ptwr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    group: Group,
    /// `None` for all of the group.
    name: Option<String>,
    /// Tracepoints that tell of it; none where another recorder does.
    tracepoints: Vec<&'static str>,
}

impl Selector {
    /// True if a capture without such items says that there were none.
    pub(crate) fn is_recorded(&self, recorded: &Recorded) -> bool {
        recorded.has_any(self.group, &self.tracepoints)
    }

    /// Tracepoints that tell of it; none where another recorder does.
    pub(crate) fn tracepoints(&self) -> &[&'static str] {
        &self.tracepoints
    }

    /// The text that it was made from.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn has(&self, item: &Item) -> bool {
        let named = self.name.as_ref();
        item.group == self.group && named.is_none_or(|name| *name == item.name)
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || format!("{text}: expected GROUP/NAME or GROUP/*");
        let (group_name, name) = text.split_once('/').ok_or_else(expected)?;
        if name.is_empty() {
            return Err(expected());
        }
        let group: StrDeserializer<'_, Unknown> = group_name.into_deserializer();
        let group = Group::deserialize(group).map_err(|error| format!("{text}: {error}"))?;
        let name = (name != ALL).then_some(name);
        Ok(Self {
            text: text.to_owned(),
            group,
            name: name.map(str::to_owned),
            tracepoints: Recorded::sources(group, name),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_names_a_group_that_exists() {
        for text in [
            "traps/ptwr",
            "exits/*",
            "pinned/1 page",
            "to-user-space/KVM_EXIT_IO",
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        let refused = "trap/ptwr".parse::<Selector>().unwrap_err();
        assert!(refused.contains("trap/ptwr: unknown variant `trap`, expected one of `traps`"));
        let refused = "traps/".parse::<Selector>().unwrap_err();
        assert_eq!(refused, "traps/: expected GROUP/NAME or GROUP/*");
    }
}
