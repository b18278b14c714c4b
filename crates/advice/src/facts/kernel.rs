//! Releases of Linux, and ranges of them.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A release, as `uname -r` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kernel(pub String);

impl Kernel {
    /// Version, if the release begins with one.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.0.parse().ok()
    }
}

/// The first two numbers of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(format!("{text}: expected a version such as 6.18")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// `>= 7.2` or `< 6.18`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    From(Version),
    Before(Version),
}

impl Range {
    pub(crate) fn has(self, version: Version) -> bool {
        match self {
            Self::From(first) => version >= first,
            Self::Before(end) => version < end,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(first) => write!(f, "Linux {first} or later"),
            Self::Before(end) => write!(f, "Linux before {end}"),
        }
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let range = match text.split_once(' ') {
            Some((">=", version)) => version.parse().map(Self::From),
            Some(("<", version)) => version.parse().map(Self::Before),
            _ => Err(format!(
                "{text}: expected a range such as `>= 7.2` or `< 6.18`"
            )),
        };
        range.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text: &str| Kernel(text.to_owned()).version();
        assert!(version("6.9.1").unwrap() < version("6.18-rc4").unwrap());
        assert!(version("7.2.0-generic").unwrap() > version("6.18.44").unwrap());
        assert_eq!(version("6"), None);
        assert_eq!(version("next"), None);
    }

    #[test]
    fn a_range_has_its_first_and_not_its_end() {
        let version: Version = "6.18".parse().unwrap();
        assert!(Range::From(version).has(version));
        assert!(!Range::Before(version).has(version));
    }
}
