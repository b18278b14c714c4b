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
    group: Group,
    group_name: String,
    /// `None` for all of the group.
    name: Option<String>,
}

impl Selector {
    /// True if a capture without such items says that there were none.
    pub(crate) fn is_recorded(&self, recorded: &Recorded) -> bool {
        recorded.has(self.group, self.name.as_deref())
    }

    /// Tracepoints that tell of it; none where another recorder does.
    pub(crate) fn tracepoints(&self) -> Vec<&'static str> {
        Recorded::sources(self.group, self.name.as_deref())
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
        Ok(Self {
            group,
            group_name: group_name.to_owned(),
            name: (name != ALL).then(|| name.to_owned()),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or(ALL);
        write!(f, "{}/{name}", self.group_name)
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
