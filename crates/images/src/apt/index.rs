//! The part of a suite's package lists that the lab can use, read from `Packages` files.
//!
//! Format: deb822(5). Pure text in, plain data out; apt has verified the text before.

use pagetoll_bill::{Arch, Package};
use serde::{Deserialize, Serialize};

use crate::apt::version;

/// Names that are kept, by their beginning.
const PREFIXES: [&str; 10] = [
    "linux-image-",
    "linux-headers-",
    "linux-kbuild-",
    "linux-binary-",
    "linux-modules-",
    "linux-source-",
    "linux-config-",
    "xen-hypervisor-",
    "xen-utils-",
    "libxen",
];
/// Names that are kept: a static shell for guests, and the libraries that kbuild's tools are linked to.
const NAMES: [&str; 6] = [
    "busybox-static",
    "libc6",
    "libelf1",
    "libelf1t64",
    "libzstd1",
    "zlib1g",
];
/// Names that are left out again: nothing can boot them.
const SUFFIXES_LEFT_OUT: [&str; 3] = ["-dbg", "-unsigned", "-template"];

/// Debian's name of a processor.
pub(super) const fn debian_name(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "amd64",
        Arch::Arm64 => "arm64",
    }
}

/// One version of one package that a suite offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name, version and digest.
    #[serde(flatten)]
    pub package: Package,
    /// Its path below the mirror.
    pub filename: String,
    /// The size of its file in bytes; 0 where the list does not say.
    #[serde(default)]
    pub size: u64,
    /// Its `Depends` field, as it is written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub depends: String,
}

/// Reads a `Packages` file and keeps what the lab can use.
#[must_use]
pub fn parse(text: &str) -> Vec<Listed> {
    text.split("\n\n")
        .filter(|stanza| is_wanted(field(stanza, "Package")))
        .filter_map(parse_stanza)
        .collect()
}

fn parse_stanza(stanza: &str) -> Option<Listed> {
    let owned = |name| field(stanza, name).map(str::to_owned);
    Some(Listed {
        package: Package {
            name: owned("Package")?,
            version: owned("Version")?,
            sha256: owned("SHA256")?,
        },
        filename: owned("Filename")?,
        size: field(stanza, "Size")
            .and_then(|size| size.parse().ok())
            .unwrap_or(0),
        depends: owned("Depends").unwrap_or_default(),
    })
}

/// The value of a field that is written on one line, as all those that are read here are.
fn field<'a>(stanza: &'a str, name: &str) -> Option<&'a str> {
    stanza
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn is_wanted(name: Option<&str>) -> bool {
    name.is_some_and(|name| {
        let kept = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        kept && !SUFFIXES_LEFT_OUT
            .iter()
            .any(|suffix| name.ends_with(suffix))
    })
}

/// One dependency that has no alternatives, such as `linux-kbuild-6.1 (>= 6.1.192-2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// The package.
    pub name: &'a str,
    relation: Option<(&'a str, &'a str)>,
}

impl Dependency<'_> {
    /// Returns whether a package of this name and version fulfils it.
    #[must_use]
    pub fn allows(&self, package: &Package) -> bool {
        let Some((operator, wanted)) = self.relation else {
            return package.name == self.name;
        };
        let order = version::compare(&package.version, wanted);
        let fits = match operator {
            "=" => order.is_eq(),
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">>" => order.is_gt(),
            "<<" => order.is_lt(),
            _ => false,
        };
        fits && package.name == self.name
    }
}

/// The dependencies of a package; those with alternatives, which no kernel package uses for its own parts, are left out.
pub fn dependencies(listed: &Listed) -> impl Iterator<Item = Dependency<'_>> {
    listed
        .depends
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty() && !text.contains('|'))
        .map(|text| {
            let (name, relation) = text.split_once('(').unwrap_or((text, ""));
            let relation = relation.trim_end_matches(')').trim().split_once(' ');
            let name = name.trim();
            let name = name
                .split_once(':')
                .map_or(name, |(name, _architecture)| name);
            Dependency {
                name,
                relation: relation.map(|(operator, version)| (operator, version.trim())),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGES: &str = "\
Package: 0ad
Version: 1
SHA256: 00
Filename: pool/0

Package: linux-image-amd64
Source: linux-signed-amd64 (6.1.192+2)
Version: 6.1.192-2
Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2), kmod, a | b
Filename: pool/main/l/linux-image-amd64.deb
SHA256: 8f

Package: linux-image-6.1.0-56-amd64-dbg
Version: 1
SHA256: 00
Filename: pool/0
";

    #[test]
    fn keeps_what_can_be_used() {
        let listed = parse(PACKAGES);
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].package.version, "6.1.192-2");
        assert_eq!(listed[0].package.sha256, "8f");
    }

    #[test]
    fn a_stanza_without_digest_is_not_offered() {
        assert!(parse("Package: linux-image-amd64\nVersion: 1\nFilename: x\n").is_empty());
    }

    #[test]
    fn reads_dependencies() {
        let listed = &parse(PACKAGES)[0];
        let all: Vec<_> = dependencies(listed).collect();
        assert_eq!(
            all.iter().map(|d| d.name).collect::<Vec<_>>(),
            ["linux-image-6.1.0-56-amd64", "kmod"]
        );
        let package = |version: &str| Package {
            name: "linux-image-6.1.0-56-amd64".into(),
            version: version.into(),
            sha256: String::new(),
        };
        assert!(all[0].allows(&package("6.1.192-2")));
        assert!(!all[0].allows(&package("6.1.192-1")));
    }
}
