//! Which packages make up a kernel, its headers, or Xen: pure functions over a recorded index.
//!
//! No kernel's name is written here: everything follows the `Depends` of the packages that
//! Debian keeps pointing at its current kernel.

use pagetoll_bill::{Arch, Available, Unavailable};
use serde::{Deserialize, Serialize};

use crate::apt::index::{Dependency, Listed, debian_name, dependencies};
use crate::apt::version;

/// Prefix of a kernel's package; without a version it is the one that Debian installs for ordinary machines.
const KERNEL: &str = "linux-image-";
/// Prefixes of the parts of a kernel image, which is split in three from 7.2 on.
const IMAGE_PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];
/// Prefixes of the parts of its headers.
const HEADER_PARTS: [&str; 2] = ["linux-headers-", "linux-kbuild-"];
/// Prefixes of the shared libraries of kbuild's tools.
const LIBRARIES: [&str; 4] = ["libc6", "libelf1", "libzstd1", "zlib1g"];

/// The source of a kernel, and Debian's configurations of it.
const SOURCE: &str = "linux-source-";
const CONFIG: &str = "linux-config-";

/// Version of the record of package lists: an earlier one holds less, and is replaced.
pub(super) const KEPT: u32 = 2;

/// Packages that a suite offers, as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Index {
    /// Which packages were kept when it was recorded.
    #[serde(default)]
    pub(super) kept: u32,
    /// The processor that its packages are for.
    #[serde(default)]
    pub(super) arch: Arch,
    /// When it was fetched, in seconds since 1970.
    pub fetched_at: u64,
    /// The packages of the suite itself.
    pub own: Vec<Listed>,
    /// The packages of the suite that it builds upon; they fulfil dependencies only.
    pub base: Vec<Listed>,
}

/// The packages of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPackages {
    /// The image and its modules: one package or, from 7.2 on, three.
    pub image: Vec<Listed>,
    /// Headers and build tools, or why there are none.
    pub headers: Available<Vec<Listed>>,
}

/// A kernel that a suite offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// The release that `uname -r` prints, such as `6.1.0-56-amd64`.
    pub release: &'a str,
    /// The version of its package, such as `6.1.192-1`.
    pub version: &'a str,
}

/// The packages that a kernel can be built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePackages {
    /// `linux-source-6.1`, with Debian's patches.
    pub source: Listed,
    /// `linux-config-6.1` of the same version.
    pub config: Listed,
}

impl Index {
    /// An index of what two lists hold.
    pub(super) fn new(arch: Arch, fetched_at: u64, own: Vec<Listed>, base: Vec<Listed>) -> Self {
        Self {
            kept: KEPT,
            arch,
            fetched_at,
            own,
            base,
        }
    }

    /// The newest source of a kernel series such as `6.1`, with its configurations.
    ///
    /// # Errors
    /// A sentence that says what the suite offers instead.
    pub fn source(&self, series: &str) -> Result<SourcePackages, String> {
        let source = self
            .newest(&format!("{SOURCE}{series}"))
            .ok_or_else(|| self.no_source(series))?;
        let name = format!("{CONFIG}{series}");
        let config = self.own.iter().find(|listed| {
            listed.package.name == name && listed.package.version == source.package.version
        });
        Ok(SourcePackages {
            config: config
                .ok_or_else(|| format!("the suite has no {name} {}", source.package.version))?
                .clone(),
            source: source.clone(),
        })
    }

    fn no_source(&self, series: &str) -> String {
        let names = self.own.iter().map(|listed| listed.package.name.as_str());
        let mut offered: Vec<_> = names.filter_map(|name| name.strip_prefix(SOURCE)).collect();
        offered.sort_unstable();
        offered.dedup();
        let offered = match offered.as_slice() {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        format!("the suite has no source of Linux {series}; it has {offered}")
    }

    /// The newest version of a package of the suite itself.
    #[must_use]
    pub fn newest(&self, name: &str) -> Option<&Listed> {
        newest(self.own.iter().filter(|listed| listed.package.name == name))
    }

    /// The suite's current kernel, or the newest one whose version begins with `prefix`.
    ///
    /// # Errors
    /// A sentence that says what the suite offers instead.
    pub fn kernel(&self, prefix: Option<&str>) -> Result<KernelPackages, String> {
        let current = format!("{KERNEL}{}", debian_name(self.arch));
        let head = match prefix {
            None => self
                .newest(&current)
                .ok_or_else(|| format!("the suite has no {current}"))?,
            Some(prefix) => self
                .newest_kernel(prefix)
                .ok_or_else(|| self.offered(prefix))?,
        };
        let mut image = self.closure(head, &IMAGE_PARTS)?;
        image.retain(|listed| listed.package.name != current);
        let release = image
            .iter()
            .find_map(|listed| self.release_of(listed))
            .ok_or("the suite's kernel has no version in its name")?;
        let headers = self.headers(release).map_err(Unavailable);
        Ok(KernelPackages { image, headers })
    }

    /// All kernels of the suite for ordinary machines, the oldest version first.
    #[must_use]
    pub fn kernels(&self) -> Vec<Kernel<'_>> {
        let own = self.own.iter();
        let kernel = |listed| {
            Some(Kernel {
                release: self.release_of(listed)?,
                version: &listed.package.version,
            })
        };
        let mut kernels: Vec<_> = own.filter_map(kernel).collect();
        kernels.sort_by(|a, b| version::compare(a.version, b.version));
        kernels.dedup();
        kernels
    }

    /// The newest Xen.
    #[must_use]
    pub fn xen(&self) -> Option<&Listed> {
        let is_xen = |name: &str| {
            name.strip_prefix("xen-hypervisor-")
                .is_some_and(|rest| rest.ends_with("-amd64"))
        };
        newest(
            self.own
                .iter()
                .filter(|listed| is_xen(&listed.package.name)),
        )
    }

    /// The shared libraries that the build tools among these headers are linked to.
    ///
    /// # Errors
    /// A sentence that says which is missing.
    pub fn tool_libraries(&self, headers: &[Listed]) -> Result<Vec<Listed>, String> {
        let mut all = Vec::new();
        for tools in headers
            .iter()
            .filter(|listed| listed.package.name.starts_with("linux-kbuild-"))
        {
            all.extend(self.closure(tools, &LIBRARIES)?.into_iter().skip(1));
        }
        Ok(all)
    }

    fn newest_kernel(&self, prefix: &str) -> Option<&Listed> {
        newest(self.own.iter().filter(|listed| {
            self.release_of(listed).is_some_and(|release| {
                begins_version(release, prefix) || begins_version(&listed.package.version, prefix)
            })
        }))
    }

    fn offered(&self, prefix: &str) -> String {
        let kernels = self.kernels().into_iter();
        let mut releases: Vec<_> = kernels.map(|kernel| kernel.release).collect();
        releases.dedup();
        format!(
            "no kernel of the suite begins with {prefix}; it has {}",
            releases.join(", ")
        )
    }

    /// `6.1.0-56-amd64` of `linux-image-6.1.0-56-amd64`; `None` for other flavours, and for
    /// metapackages, which have no version in their name or, as `linux-image-6.12-amd64`, half of one.
    fn release_of<'l>(&self, listed: &'l Listed) -> Option<&'l str> {
        let release = listed.package.name.strip_prefix(KERNEL)?;
        let version = release
            .strip_suffix(debian_name(self.arch))?
            .strip_suffix('-')?;
        let other_flavour = ["-cloud", "-rt", "-16k"]
            .iter()
            .any(|flavour| version.ends_with(flavour));
        let is_whole =
            version.starts_with(|c: char| c.is_ascii_digit()) && version.split('.').count() > 2;
        (is_whole && !other_flavour).then_some(release)
    }

    fn headers(&self, release: &str) -> Result<Vec<Listed>, String> {
        if self.arch != Arch::X86_64 {
            return Err("modules are built for x86-64 only".to_owned());
        }
        let name = format!("linux-headers-{release}");
        let head = self
            .newest(&name)
            .ok_or_else(|| format!("the suite has no {name} (any more)"))?;
        self.closure(head, &HEADER_PARTS)
    }

    /// A package and what it depends upon, as far as names begin with one of `parts`.
    fn closure(&self, head: &Listed, parts: &[&str]) -> Result<Vec<Listed>, String> {
        let mut found = vec![head.clone()];
        let mut next = 0;
        while let Some(listed) = found.get(next).cloned() {
            next += 1;
            let parts_of = |name: &str| parts.iter().any(|part| name.starts_with(part));
            for dependency in dependencies(&listed).filter(|dependency| parts_of(dependency.name)) {
                let part = self.fulfil(&dependency).ok_or_else(|| {
                    format!(
                        "{} depends on {}, which the suite lacks",
                        listed.package.name, dependency.name
                    )
                })?;
                if !found.contains(part) {
                    found.push(part.clone());
                }
            }
        }
        Ok(found)
    }

    fn fulfil(&self, dependency: &Dependency<'_>) -> Option<&Listed> {
        let of = |listed: &'_ [Listed]| -> Option<usize> {
            let fits = listed
                .iter()
                .enumerate()
                .filter(|(_, listed)| dependency.allows(&listed.package));
            fits.max_by(|(_, a), (_, b)| version::compare(&a.package.version, &b.package.version))
                .map(|(i, _)| i)
        };
        of(&self.own)
            .map(|i| &self.own[i])
            .or_else(|| of(&self.base).map(|i| &self.base[i]))
    }
}

fn newest<'a>(listed: impl Iterator<Item = &'a Listed>) -> Option<&'a Listed> {
    listed.max_by(|a, b| version::compare(&a.package.version, &b.package.version))
}

/// Returns whether `version` begins with `prefix`, whole numbers only: 6.1 does not begin 6.18.
#[must_use]
pub fn begins_version(version: &str, prefix: &str) -> bool {
    version.strip_prefix(prefix).is_some_and(|rest| {
        !(prefix.ends_with(|c: char| c.is_ascii_digit())
            && rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetoll_bill::Package;

    fn listed(name: &str, version: &str, depends: &str) -> Listed {
        Listed {
            package: Package {
                name: name.into(),
                version: version.into(),
                sha256: format!("{name}-{version}"),
            },
            filename: format!("pool/{name}.deb"),
            size: 1,
            depends: depends.into(),
        }
    }

    /// Name, version and dependencies of a package, a line each.
    const OWN: &str = "\
        linux-image-amd64 7.2.9-1 linux-image-7.2.9-amd64 (= 7.2.9-1)
        linux-image-amd64 7.2.12-1 linux-base, linux-image-7.2.12-amd64 (= 7.2.12-1)
        linux-image-7.2.12-amd64 7.2.12-1 dracut | initramfs-tools, linux-binary-7.2.12-amd64 (= 7.2.12-1), linux-modules-7.2.12-amd64 (= 7.2.12-1)
        linux-binary-7.2.12-amd64 7.2.12-1 linux-base
        linux-modules-7.2.12-amd64 7.2.12-1 kmod
        linux-headers-7.2.12-amd64 7.2.12-1 gcc-14, linux-headers-7.2.12-common (= 7.2.12-1), linux-kbuild-7.2.12
        linux-headers-7.2.12-common 7.2.12-1
        linux-kbuild-7.2.12 7.2.12-1 libc6 (>= 2.38), libelf1t64
        linux-image-6.1.0-9-amd64 6.1.90-1
        linux-image-6.18.5-amd64 6.18.5-1
        linux-image-6.18.15-amd64 6.18.15-1
        linux-image-6.18-amd64 6.18.15-1 linux-image-6.18.15-amd64 (= 6.18.15-1)
        linux-image-6.18.16-rt-amd64 6.18.16-1
        xen-hypervisor-4.9-amd64 4.9.1-1
        xen-hypervisor-4.20-amd64 4.20.3-1
        xen-hypervisor-common 9-1
    ";
    const BASE: &str = "\
        linux-image-amd64 9.9-1
        libc6 2.41-12
        libelf1t64 0.192-4 libc6, zlib1g
        zlib1g 1:1.3
    ";

    fn all_listed(lines: &str) -> Vec<Listed> {
        let of_line = |line: &str| {
            let mut words = line.trim().splitn(3, ' ');
            let mut next = || words.next().unwrap_or_default();
            listed(next(), next(), next())
        };
        let lines = lines.lines().filter(|line| !line.trim().is_empty());
        lines.map(of_line).collect()
    }

    fn index() -> Index {
        Index {
            kept: KEPT,
            arch: Arch::X86_64,
            fetched_at: 0,
            own: all_listed(OWN),
            base: all_listed(BASE),
        }
    }

    fn names(listed: &[Listed]) -> Vec<&str> {
        listed
            .iter()
            .map(|listed| listed.package.name.as_str())
            .collect()
    }

    #[test]
    fn follows_the_split_image_and_its_headers() {
        let kernel = index().kernel(None).unwrap();
        let image = [
            "linux-image-7.2.12-amd64",
            "linux-binary-7.2.12-amd64",
            "linux-modules-7.2.12-amd64",
        ];
        assert_eq!(names(&kernel.image), image);
        let headers = [
            "linux-headers-7.2.12-amd64",
            "linux-headers-7.2.12-common",
            "linux-kbuild-7.2.12",
        ];
        assert_eq!(names(&kernel.headers.unwrap()), headers);
    }

    #[test]
    fn libraries_of_the_tools_come_from_the_base_suite() {
        let index = index();
        let headers = index.kernel(None).unwrap().headers.unwrap();
        assert_eq!(
            names(&index.tool_libraries(&headers).unwrap()),
            ["libc6", "libelf1t64", "zlib1g"]
        );
    }

    #[test]
    fn a_prefix_selects_the_newest_of_whole_numbers() {
        let of = |prefix| {
            names(&index().kernel(Some(prefix)).unwrap().image)
                .first()
                .map(ToString::to_string)
        };
        assert_eq!(of("6.18").as_deref(), Some("linux-image-6.18.15-amd64"));
        assert_eq!(of("6.1").as_deref(), Some("linux-image-6.1.0-9-amd64"));
        assert_eq!(
            of("6.1.90").as_deref(),
            Some("linux-image-6.1.0-9-amd64"),
            "by the package's version"
        );
    }

    #[test]
    fn headers_that_are_gone_are_a_reason_not_an_error() {
        let headers = index().kernel(Some("6.18")).unwrap().headers;
        assert_eq!(
            headers.unwrap_err().0,
            "the suite has no linux-headers-6.18.15-amd64 (any more)"
        );
    }

    #[test]
    fn an_absent_kernel_is_told_with_what_there_is() {
        let error = index().kernel(Some("5.10")).unwrap_err();
        assert_eq!(
            error,
            "no kernel of the suite begins with 5.10; it has \
             6.1.0-9-amd64, 6.18.5-amd64, 6.18.15-amd64, 7.2.12-amd64"
        );
    }

    #[test]
    fn a_missing_part_is_named() {
        let mut index = index();
        index
            .own
            .retain(|listed| !listed.package.name.starts_with("linux-modules-"));
        let error = index.kernel(None).unwrap_err();
        assert!(
            error.contains("linux-modules-7.2.12-amd64, which the suite lacks"),
            "{error}"
        );
    }

    #[test]
    fn the_newest_xen_is_newest_by_version_not_by_name() {
        assert_eq!(
            index().xen().unwrap().package.name,
            "xen-hypervisor-4.20-amd64"
        );
    }
}
