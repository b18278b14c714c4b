//! Which kernel is meant: `xen-pv-get-and-clear`, `none@bookworm/6.1`, ...

use std::fmt;
use std::str::FromStr;

use crate::catalogue::{self, Fix, Patch, Program, Series};
use crate::error::{FixError, refused};

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
    program: Program,
    /// Another suite than the series' own.
    suite: Option<String>,
    /// As it was written.
    text: String,
}

impl Spec {
    /// What `--xen` names, with `fix:` or without; `none` is Debian's Xen, built in the same way.
    ///
    /// # Errors
    /// As [`Spec::from_str`]; a fix of Linux.
    pub fn of_xen(text: &str) -> Result<Self, FixError> {
        Self::of(Program::Xen, text)
    }

    /// What `--kernel` names, with `fix:` or without.
    ///
    /// # Errors
    /// As [`Spec::from_str`]; a fix of Xen.
    pub fn of_linux(text: &str) -> Result<Self, FixError> {
        Self::of(Program::Linux, text)
    }

    fn of(program: Program, text: &str) -> Result<Self, FixError> {
        let spec = Self::parse(text.strip_prefix(PREFIX).unwrap_or(text), program)?;
        if spec.program == program {
            return Ok(spec);
        }
        let problem = format!("is a fix of {}", spec.program);
        Err(refused(spec, problem, format!("a fix of {program}")).into())
    }

    fn parse(text: &str, of_none: Program) -> Result<Self, FixError> {
        let (name, place) = text
            .split_once('@')
            .map_or((text, None), |(name, place)| (name, Some(place)));
        let (suite, version) =
            match place.map(|place| place.rsplit_once('/').unwrap_or(("", place))) {
                None => (None, None),
                Some((suite, version)) => {
                    (Some(suite).filter(|suite| !suite.is_empty()), Some(version))
                }
            };
        let fix = match name {
            NONE => None,
            name => Some(catalogue::find(name)?),
        };
        let program = fix.map_or(of_none, |fix| fix.program);
        Ok(Self {
            series: series(text, fix, program, version)?,
            fix,
            program,
            suite: suite.map(str::to_owned),
            text: text.to_owned(),
        })
    }

    /// What is built.
    #[must_use]
    pub const fn program(&self) -> Program {
        self.program
    }

    /// All that is applied to the source, in order: [`Fix::stack`]; nothing for `none`.
    pub(crate) fn patches(&self) -> Vec<Patch> {
        let stack = self.fix.map(|fix| fix.stack(self.series));
        stack.unwrap_or_default()
    }

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

    /// A fix of either program; `none` is a kernel.
    fn from_str(text: &str) -> Result<Self, FixError> {
        Self::parse(text, Program::Linux)
    }
}

/// The series for a version; without one the fix's first.
fn series(
    text: &str,
    fix: Option<&'static Fix>,
    program: Program,
    version: Option<&str>,
) -> Result<&'static Series, FixError> {
    let all = match fix {
        Some(fix) => fix.series.iter().collect::<Vec<_>>(),
        None => catalogue::all()
            .iter()
            .filter(|fix| fix.program == program)
            .flat_map(|fix| &fix.series)
            .collect(),
    };
    let wanted = |series: &&&Series| version.is_none_or(|version| series.version == version);
    let found = all.iter().find(wanted).copied();
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|series| series.version.as_str()).collect();
        refused(
            text,
            format!(
                "there are no patches for {program} {}",
                version.unwrap_or_default()
            ),
            format!("{EXPECTED}, where SERIES is one of {}", known.join(", ")),
        )
        .into()
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
            (spec.name(), spec.series.version.as_str()),
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
