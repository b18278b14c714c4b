//! Names of kernels and hypervisors with fixes: `xen-pv-get-and-clear`, `none@bookworm/6.1`, ...

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use pagetoll_bill::Arch;

use crate::catalogue::{self, Fix, Patch, Program, Series};
use crate::config::Devices;
use crate::error::{FixError, refused};

/// Prefix of a fix's name in `--kernel` and `--xen`.
pub const PREFIX: &str = "fix:";
/// Name of the kernel that is built in the same way from the same source, but not patched.
pub const NONE: &str = "none";

const EXPECTED: &str = "NAME, NAME@SERIES such as xen-pv-get-and-clear@6.1, or NAME@SUITE/SERIES";

/// A kernel that can be built: a fix or none, on a series of Linux, for a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The fix; `None` leaves the source as it is.
    pub fix: Option<&'static Fix>,
    /// The patches for this series, and the suite that has its source.
    pub series: &'static Series,
    program: Program,
    arch: Arch,
    /// Suite, if not the series' own.
    suite: Option<String>,
    /// Text that was parsed.
    text: String,
}

impl Spec {
    /// Parses a name of `--xen`, with `fix:` or without; `none` is Debian's Xen, built in the same way.
    ///
    /// # Errors
    /// Those of [`Spec::from_str`]; a fix of Linux.
    pub fn xen(text: &str) -> Result<Self, FixError> {
        Self::for_program(Program::Xen, text, Arch::default())
    }

    /// Parses a name of `--kernel`, with `fix:` or without.
    ///
    /// # Errors
    /// Those of [`Spec::for_arch`]; a fix of Xen.
    pub fn linux(text: &str, arch: Arch) -> Result<Self, FixError> {
        Self::for_program(Program::Linux, text, arch)
    }

    /// Parses the name of a fix of either program, on machines with this processor; `none` is a kernel.
    ///
    /// # Errors
    /// [`BadInput`](pagetoll_host::Error::BadInput): a name, a series or a processor for which there are no patches.
    pub fn for_arch(text: &str, arch: Arch) -> Result<Self, FixError> {
        Self::parse(text, Program::Linux, arch)
    }

    fn for_program(program: Program, text: &str, arch: Arch) -> Result<Self, FixError> {
        let spec = Self::parse(text.strip_prefix(PREFIX).unwrap_or(text), program, arch)?;
        if spec.program == program {
            return Ok(spec);
        }
        let problem = format!("is a fix of {}", spec.program);
        Err(refused(spec, problem, format!("a fix of {program}")).into())
    }

    fn parse(text: &str, default: Program, arch: Arch) -> Result<Self, FixError> {
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
        let program = fix.map_or(default, |fix| fix.program);
        Ok(Self {
            series: series(text, fix, program, version, arch)?,
            fix,
            program,
            arch,
            suite: suite.map(str::to_owned),
            text: text.to_owned(),
        })
    }

    /// Program to build.
    #[must_use]
    pub const fn program(&self) -> Program {
        self.program
    }

    /// Processor of the build.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Patches of the source, in order: [`Fix::stack`]; none for `none`.
    pub(crate) fn patches(&self) -> Vec<Patch> {
        let stack = self.fix.map(|fix| fix.stack(self.series));
        stack.unwrap_or_default()
    }

    /// Debian suite of the source; `None` is the one that this system runs.
    #[must_use]
    pub fn suite(&self) -> Option<&str> {
        self.suite.as_deref().or(self.series.suite.as_deref())
    }

    /// Devices that its kernel needs where the fix is checked.
    #[must_use]
    pub fn devices(&self) -> Devices {
        self.fix.map(|fix| fix.bench.devices()).unwrap_or_default()
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

    /// Calls [`Spec::for_arch`] with the default processor.
    fn from_str(text: &str) -> Result<Self, FixError> {
        Self::for_arch(text, Arch::default())
    }
}

/// The series for a version and a processor; without a version the fix's first.
fn series(
    text: &str,
    fix: Option<&'static Fix>,
    program: Program,
    version: Option<&str>,
    arch: Arch,
) -> Result<&'static Series, FixError> {
    let of_program = match fix {
        Some(fix) => fix.series.iter().collect::<Vec<_>>(),
        None => catalogue::all()
            .iter()
            .filter(|fix| fix.program == program)
            .flat_map(|fix| &fix.series)
            .collect(),
    };
    let is_for = |series: &&&Series| series.archs().any(|other| other == arch);
    let all: Vec<_> = of_program.iter().filter(is_for).copied().collect();
    if all.is_empty() {
        let archs = of_program.iter().flat_map(|series| series.archs());
        let archs: BTreeSet<_> = archs.map(Arch::name).collect();
        let archs: Vec<_> = archs.into_iter().collect();
        let problem = format!("there are no patches for {arch}");
        return Err(refused(text, problem, format!("--arch {}", archs.join(", "))).into());
    }
    let wanted = |series: &&&Series| version.is_none_or(|version| series.version == version);
    let found = all.iter().find(wanted).copied();
    found.ok_or_else(|| {
        let mut known: Vec<_> = all.iter().map(|series| series.version.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let version = version.unwrap_or_default();
        let problem = format!("there are no patches for {program} {version}");
        let expected = format!("{EXPECTED}, where SERIES is one of {}", known.join(", "));
        refused(text, problem, expected).into()
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
        let unknown = "none@5.10".parse::<Spec>().unwrap_err().to_string();
        assert!(unknown.ends_with("one of 6.1, 7.3"), "{unknown}");
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let unknown = "no-such-fix".parse::<Spec>().unwrap_err();
        assert!(
            unknown
                .to_string()
                .contains("expected one of: xen-lazy-mmu"),
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
