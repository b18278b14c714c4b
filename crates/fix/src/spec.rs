//! Which kernel is meant: `xen-pv-get-and-clear`, `none@bookworm/6.1`, ...

use std::fmt;
use std::str::FromStr;

use pagetoll_images::Error;

use crate::catalogue::{self, Fix, Series};
use crate::error::FixError;

/// What `--kernel` puts before the name of a fix.
pub const PREFIX: &str = "fix:";
/// The name of the kernel that is built in the same way from the same source, but not patched.
pub const NONE: &str = "none";

const EXPECTED: &str = "NAME, NAME@SERIES such as xen-pv-get-and-clear@6.1, or NAME@SUITE/SERIES";

/// A kernel that can be built: a fix or none, on a series of Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The fix; `None` leaves the source as it is.
    pub fix: Option<&'static Fix>,
    /// The patches for this series, and the suite that has its source.
    pub series: &'static Series,
    /// Another suite than the series' own.
    suite: Option<String>,
    /// As it was written.
    text: String,
}

impl Spec {
    /// The suite of Debian that the source comes from; `None` is the one that this system runs.
    #[must_use]
    pub fn suite(&self) -> Option<&str> {
        self.suite.as_deref().or(self.series.suite.as_deref())
    }

    /// `none`, or the fix's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fix.map_or(NONE, |fix| &fix.name)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Spec {
    type Err = FixError;

    fn from_str(text: &str) -> Result<Self, FixError> {
        let (name, place) = text
            .split_once('@')
            .map_or((text, None), |(name, place)| (name, Some(place)));
        let (suite, linux) = match place.map(|place| place.rsplit_once('/').unwrap_or(("", place)))
        {
            None => (None, None),
            Some((suite, linux)) => (Some(suite).filter(|suite| !suite.is_empty()), Some(linux)),
        };
        let fix = match name {
            NONE => None,
            name => Some(catalogue::find(name)?),
        };
        Ok(Self {
            series: series(text, fix, linux)?,
            fix,
            suite: suite.map(str::to_owned),
            text: text.to_owned(),
        })
    }
}

/// The series for a version of Linux; without one the fix's first.
fn series(
    text: &str,
    fix: Option<&'static Fix>,
    linux: Option<&str>,
) -> Result<&'static Series, FixError> {
    let all = match fix {
        Some(fix) => fix.series.iter().collect::<Vec<_>>(),
        None => catalogue::all()
            .iter()
            .flat_map(|fix| &fix.series)
            .collect(),
    };
    let wanted = |series: &&&Series| linux.is_none_or(|linux| series.linux == linux);
    let found = all.iter().find(wanted).copied();
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|series| series.linux.as_str()).collect();
        let error = Error::BadInput {
            what: "fix",
            value: text.to_owned(),
            problem: format!(
                "there are no patches for Linux {}",
                linux.unwrap_or_default()
            ),
            expected: format!("{EXPECTED}, where SERIES is one of {}", known.join(", ")),
        };
        error.into()
    })
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn a_name_means_its_first_series_and_the_systems_suite() {
        let spec: Spec = "xen-pv-get-and-clear".parse().unwrap();
        assert_eq!(
            (spec.name(), spec.series.linux.as_str()),
            ("xen-pv-get-and-clear", "6.1")
        );
        assert_eq!(spec.suite(), None);
        assert_eq!(spec.to_string(), "xen-pv-get-and-clear");
    }

    #[test]
    fn none_has_the_series_of_all_fixes() {
        let spec: Spec = "none@sid/6.1".parse().unwrap();
        assert!(spec.fix.is_none());
        assert_eq!((spec.suite(), spec.name()), (Some("sid"), NONE));
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let unknown = "no-such-fix".parse::<Spec>().unwrap_err();
        assert!(
            unknown
                .to_string()
                .contains("expected one of: xen-pv-get-and-clear"),
            "{unknown}"
        );
        let series = "xen-pv-get-and-clear@5.10".parse::<Spec>().unwrap_err();
        assert!(
            series
                .to_string()
                .contains("no patches for Linux 5.10; expected"),
            "{series}"
        );
        for refused in [unknown, series] {
            assert_eq!(refused.class(), Class::BadInput);
        }
    }
}
