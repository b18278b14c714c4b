//! Packages of kernels, or of Xen, between two versions, the oldest first.

use anyhow::Result;
use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_images::apt;
use pagetoll_images::apt::index::Listed;

use crate::args::BisectOrder;
use crate::commands::sweep::inputs::Inputs;
use crate::failure::Failure;

/// A kernel or a Xen of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// As `--kernel` or `--xen` takes it.
    source: String,
    /// Of a kernel, as `uname -r` prints it.
    release: String,
    version: String,
}

impl Package {
    fn kernel(suite: &str, release: &str, version: &str) -> Self {
        Self {
            source: format!("debian:{suite}/{version}"),
            release: release.to_owned(),
            version: version.to_owned(),
        }
    }

    /// The newest of its suite.
    fn xen(suite: &str, version: &str) -> Self {
        Self {
            source: format!("debian:{suite}"),
            release: version.to_owned(),
            version: version.to_owned(),
        }
    }

    /// As a bill's option takes it.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// As it is printed: what it is called names its version.
    pub(super) fn name(&self) -> String {
        match self.source.ends_with(&self.version) {
            true => self.source.clone(),
            false => format!("{} ({})", self.source, self.version),
        }
    }

    fn begins(&self, prefix: &str) -> bool {
        let begins = |text| apt::resolve::begins_version(text, prefix);
        begins(&self.release) || begins(&self.version)
    }
}

/// The kernels, or the Xens, of the suites from GOOD to BAD.
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
        let index = archive.index();
        if order.xen {
            let version = |xen: &Listed| Package::xen(&suite, &xen.package.version);
            packages.extend(index.xen().map(version));
        } else {
            let kernels = index.kernels().into_iter();
            packages.extend(
                kernels.map(|kernel| Package::kernel(&suite, kernel.release, kernel.version)),
            );
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
                "{prefix}: no package of the suites begins with it; they have {versions}; --suite names others, such as \
                 trixie-backports"
            ))
        })
    };
    let (first, last) = (newest(good)?, newest(bad)?);
    if first >= last {
        return Err(Failure::BadInput(format!(
            "{good}, {bad}: {} is not older than {}; expected the good version first",
            packages[first].version, packages[last].version
        )));
    }
    Ok(packages.drain(first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(suite: &str, version: &str) -> Package {
        let release = format!("{version}+deb13-amd64");
        Package::kernel(suite, &release, &format!("{version}-1"))
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
            Ok::<_, String>(found.iter().map(Package::name).collect::<Vec<_>>())
        };
        let expected = [
            "debian:a/6.18.15-1",
            "debian:b/6.19.6-1",
            "debian:b/6.19.10-1",
            "debian:a/7.0.4-1",
        ];
        assert_eq!(names("6.18", "7").unwrap(), expected);
        let unknown = names("6.1", "7").unwrap_err();
        assert!(
            unknown.starts_with("6.1: no package of the suites begins")
                && unknown.contains("--suite names others"),
            "{unknown}"
        );
        let reversed = names("7.0", "6.19").unwrap_err();
        assert!(
            reversed.contains("7.0.4-1 is not older than 6.19.10-1"),
            "{reversed}"
        );
    }

    #[test]
    fn a_suite_has_one_xen_whose_version_is_said() {
        let packages = vec![
            Package::xen("trixie", "4.20.0-1"),
            Package::xen("bookworm", "4.17.5-1"),
        ];
        let found = between(packages, "4.17", "4.20").unwrap();
        let names: Vec<_> = found.iter().map(Package::name).collect();
        assert_eq!(
            names,
            ["debian:bookworm (4.17.5-1)", "debian:trixie (4.20.0-1)"]
        );
        assert_eq!(found[1].source(), "debian:trixie");
    }
}
