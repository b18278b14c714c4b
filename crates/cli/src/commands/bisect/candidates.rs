//! Kernel packages between two versions, the oldest first.

use anyhow::Result;
use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_images::apt;

use crate::args::BisectOrder;
use crate::commands::sweep::inputs::Inputs;
use crate::failure::Failure;

/// A kernel of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    suite: String,
    /// As `uname -r` prints it.
    release: String,
    version: String,
}

impl Package {
    /// As `--kernel` takes it.
    pub(super) fn kernel(&self) -> String {
        format!("debian:{}/{}", self.suite, self.version)
    }

    fn begins(&self, prefix: &str) -> bool {
        let begins = |text| apt::resolve::begins_version(text, prefix);
        begins(&self.release) || begins(&self.version)
    }
}

/// The kernels of the suites from GOOD to BAD.
pub(super) fn of_suites(
    order: &BisectOrder,
    arch: Arch,
    inputs: &mut Inputs<'_>,
    stop: &Stop,
) -> Result<Vec<Package>> {
    let mut suites = order.suite.clone();
    if suites.is_empty() {
        suites = apt::suites(stop).map_err(pagetoll_backend::Error::from)?;
    }
    let mut packages: Vec<Package> = Vec::new();
    for suite in suites {
        let archive = inputs.archive(Some(&suite), arch)?;
        for kernel in archive.index().kernels() {
            packages.push(Package {
                suite: suite.clone(),
                release: kernel.release.to_owned(),
                version: kernel.version.to_owned(),
            });
        }
    }
    Ok(between(packages, &order.good, &order.bad)?)
}

/// Those from the newest that begins with `good` to the newest that begins with `bad`, each version once.
fn between(mut packages: Vec<Package>, good: &str, bad: &str) -> Result<Vec<Package>, Failure> {
    packages.sort_by(|a, b| apt::version::compare(&a.version, &b.version));
    packages.dedup_by(|a, b| (&a.version, &a.release) == (&b.version, &b.release));
    let newest = |prefix: &str| {
        let found = packages.iter().rposition(|package| package.begins(prefix));
        found.ok_or_else(|| {
            let versions: Vec<_> = packages
                .iter()
                .map(|package| package.version.as_str())
                .collect();
            let versions = match versions.as_slice() {
                [] => "none".to_owned(),
                some => some.join(", "),
            };
            Failure::BadInput(format!(
                "{prefix}: no kernel of the suites begins with it; they have {versions}"
            ))
        })
    };
    let (first, last) = (newest(good)?, newest(bad)?);
    if first >= last {
        return Err(Failure::BadInput(format!(
            "{good}, {bad}: {} is not older than {}; expected the good kernel's version first",
            packages[first].version, packages[last].version
        )));
    }
    Ok(packages.drain(first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(suite: &str, version: &str) -> Package {
        Package {
            suite: suite.to_owned(),
            release: format!("{version}+deb13-amd64"),
            version: format!("{version}-1"),
        }
    }

    #[test]
    fn kernels_between_are_in_the_order_of_their_versions_whatever_the_suite() {
        let packages = vec![
            package("a", "7.0.4"),
            package("a", "6.18.15"),
            package("b", "6.19.10"),
            package("b", "6.18.15"),
            package("b", "6.19.6"),
            package("a", "6.18.5"),
        ];
        let names = |good: &str, bad: &str| {
            let found = between(packages.clone(), good, bad);
            let found = found.map_err(|error| error.to_string())?;
            Ok::<_, String>(found.iter().map(Package::kernel).collect::<Vec<_>>())
        };
        let expected = [
            "debian:a/6.18.15-1",
            "debian:b/6.19.6-1",
            "debian:b/6.19.10-1",
            "debian:a/7.0.4-1",
        ];
        assert_eq!(names("6.18", "7").unwrap(), expected);
        assert!(
            names("6.1", "7")
                .unwrap_err()
                .starts_with("6.1: no kernel of the suites begins")
        );
        let reversed = names("7.0", "6.19").unwrap_err();
        assert!(
            reversed.contains("7.0.4-1 is not older than 6.19.10-1"),
            "{reversed}"
        );
    }
}
