//! The fixes that this program carries: `fixes/NAME/`, with `fix.toml`, and for each series of Linux a folder of patches
//! in the order of their file names, and a folder `broken/` of variants that the checks must catch. `fixes/prerequisites/`
//! holds the patches that every debug kernel and every PREEMPT_RT kernel gets, `fixes/refusals/` those of a Xen that refuses
//! updates on request.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{Dir, File, include_dir};
use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::tools::{self, Tool};
use serde::Deserialize;

use crate::config::{Devices, Flavour};
use crate::error::{FixError, refused};

/// A fix, as its `fix.toml` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// The folder's name too.
    pub name: String,
    /// Effect, in one line.
    pub summary: String,
    /// The text of its README.md: documents and figures that ask for it, and what it measures.
    #[serde(skip)]
    pub readme: &'static str,
    /// Fixes that are applied before it: their patches come first in the order in which they are sent.
    #[serde(default)]
    pub after: Vec<String>,
    /// Program that its patches change.
    #[serde(default)]
    pub program: Program,
    /// The fix of Linux whose kernel its checks run on; a fix of Linux has its own.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The fix of Xen that its checks run on unless another Xen is given; absent where that is Debian's.
    #[serde(default)]
    pub xen: Option<String>,
    /// True where a check asks that Xen to refuse updates, for which it is built with `fixes/refusals`.
    #[serde(default)]
    pub refusals: bool,
    /// The guest that runs its checks.
    #[serde(default)]
    pub bench: Bench,
    /// The checks that prove it.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
    /// Targets of kbuild that must compile in a [`Configuration`], by its name.
    #[serde(default)]
    pub compile: BTreeMap<String, Vec<String>>,
    /// Patches, for each series of the program; the first is the default.
    pub series: Vec<Series>,
}

/// Program that a fix patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The kernel: `--kernel fix:NAME`.
    #[default]
    Linux,
    /// The hypervisor: `--xen fix:NAME`.
    Xen,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux => "Linux",
            Self::Xen => "Xen",
        })
    }
}

/// The guest that a fix is checked in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bench {
    /// A PV dom0; the checks are those of `guests/init`.
    #[default]
    XenDom0,
    /// A host of guests of its own, without Xen; the checks are those of `guests/demand-probe`.
    KvmHost,
    /// A machine with an IOMMU and a device behind it, without Xen; the checks are those of `guests/pin-probe`.
    VfioHost,
}

impl Bench {
    /// Devices that a kernel needs on it.
    #[must_use]
    pub const fn devices(self) -> Devices {
        match self {
            Self::XenDom0 | Self::KvmHost => Devices::Absent,
            Self::VfioHost => Devices::Vfio,
        }
    }
}

/// A check inside the guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Name in `checks.c` of `guests/init`, `guests/demand-probe` or `guests/pin-probe`.
    pub name: String,
    /// Pages that it works on, or operations on pages.
    pub pages: u32,
    /// The variant of the fix that is broken so that this check must fail on it.
    pub control: String,
    /// The variant that it must fail on where the kernel has PREEMPT_RT.
    #[serde(default)]
    pub rt_control: Option<String>,
    /// Two CPUs at least, to prove anything.
    #[serde(default)]
    pub races: bool,
}

impl Check {
    /// The variant that it must fail on in a kernel configuration; `None` where nothing is broken.
    pub(crate) fn control_in(&self, flavour: Flavour) -> Option<&str> {
        match flavour {
            Flavour::Lab => Some(&self.control),
            Flavour::Rt => self.rt_control.as_deref(),
            Flavour::Debug => None,
        }
    }
}

/// A small configuration of Linux in which fixes must compile, of `fixes/configurations.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// kbuild's `ARCH`: for arm64 with its cross compiler, for any other with this machine's.
    pub arch: String,
    /// Lines of a `.config`, set over `allnoconfig`.
    pub config: Vec<String>,
    /// Further lines, for the series that know these settings.
    #[serde(default)]
    pub where_known: Vec<String>,
    /// True where it has PREEMPT_RT, which no series before 6.12 has.
    #[serde(default)]
    pub preempt_rt: bool,
}

impl Configuration {
    /// Processor whose cross compiler it takes.
    pub(crate) fn cross(&self) -> Option<Arch> {
        (self.arch == "arm64").then_some(Arch::Arm64)
    }
}

/// Objects of a fix that must compile in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compile<'a> {
    /// Label of the configuration in messages and in the log's name.
    pub name: &'a str,
    /// Small configuration that they are compiled in.
    pub configuration: Configuration,
    /// Targets of kbuild, such as `mm/memory.o`.
    pub targets: &'a [String],
}

/// Patches for one series of Linux or Xen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Version and patch level, such as `6.1` of Linux or `4.17` of Xen.
    #[serde(alias = "linux", alias = "xen")]
    pub version: String,
    /// The suite of Debian that has its source; the system's own where this is absent.
    #[serde(default)]
    pub suite: Option<String>,
    /// The commit that the patches apply to: a tag of the stable tree, or a hash.
    pub base: String,
    /// The processors that the patches are for, each with the lines that a build prints: for the progress bar only.
    pub build_lines: BTreeMap<Arch, u64>,
}

/// A patch and its file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Path below `fixes/`.
    pub file: &'static str,
    /// Mail, as `git format-patch` writes it.
    pub text: &'static str,
}

/// A patch that breaks a fixed kernel on purpose, over all patches of its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// File name without `.patch`, as checks name it.
    pub name: &'static str,
    /// A file in the series' folder `broken/`.
    pub patch: Patch,
}

/// The folder itself, in this program.
static FIXES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../fixes");

/// Folders beside the fixes: patches of debug kernels and of PREEMPT_RT kernels, and of a Xen that refuses updates on
/// request.
const PREREQUISITES: &str = "prerequisites";
const REFUSALS: &str = "refusals";

/// All fixes: those of Linux first, by the version of their first series, then by name. The spec `none` takes the first
/// series of its program.
#[must_use]
pub fn all() -> &'static [Fix] {
    static ALL: OnceLock<Vec<Fix>> = OnceLock::new();
    // A test reads them all: none is damaged.
    ALL.get_or_init(|| {
        let fixes = FIXES.dirs().filter_map(|folder| read(folder)?.ok());
        let mut fixes: Vec<Fix> = fixes.collect();
        fixes.sort_by_cached_key(|fix| {
            let first = fix.series.first().map(Series::numbers);
            (fix.program, first, fix.name.clone())
        });
        fixes
    })
}

/// The fix of a folder; `None` without a `fix.toml`.
fn read(folder: &'static Dir<'static>) -> Option<Result<Fix, toml::de::Error>> {
    let text = |name: &str| FIXES.get_file(folder.path().join(name))?.contents_utf8();
    let fix = toml::from_str(text("fix.toml")?);
    Some(fix.map(|fix| Fix {
        readme: text("README.md").unwrap_or_default(),
        ..fix
    }))
}

/// The configurations by name.
fn configurations() -> Result<BTreeMap<String, Configuration>, toml::de::Error> {
    let file = FIXES.get_file("configurations.toml");
    toml::from_str(file.and_then(File::contents_utf8).unwrap_or_default())
}

/// The patches of a folder by file name, which is their order.
fn patches_in(folder: &Path) -> Vec<Patch> {
    let files = FIXES.get_dir(folder).into_iter().flat_map(Dir::files);
    let mut patches: Vec<Patch> = files.filter_map(patch).collect();
    patches.sort_unstable_by_key(|patch| patch.file);
    patches
}

/// The patches without which a debug or PREEMPT_RT kernel of a series fails as dom0, with a fix or not.
#[must_use]
pub fn prerequisites(series: &Series) -> Vec<Patch> {
    patches_in(&Path::new(PREREQUISITES).join(&series.version))
}

/// The patches of a Xen that refuses updates of page tables on request.
pub(crate) fn refusals(series: &Series) -> Vec<Patch> {
    patches_in(&Path::new(REFUSALS).join(&series.version))
}

fn patch(file: &'static File<'static>) -> Option<Patch> {
    let name = file
        .path()
        .to_str()
        .filter(|name| name.ends_with(".patch"))?;
    Some(Patch {
        file: name,
        text: file.contents_utf8()?,
    })
}

/// Finds a fix by name.
///
/// # Errors
/// [`BadInput`](pagetoll_host::Error::BadInput) with the names that there are.
pub fn find(name: &str) -> Result<&'static Fix, FixError> {
    all().iter().find(|fix| fix.name == name).ok_or_else(|| {
        let names: Vec<_> = all().iter().map(|fix| fix.name.as_str()).collect();
        let expected = format!("one of: {}", names.join(", "));
        refused(name, "there is no such fix".into(), expected).into()
    })
}

impl Series {
    /// The processors that its patches are for.
    pub fn archs(&self) -> impl Iterator<Item = Arch> {
        self.build_lines.keys().copied()
    }

    /// True for a series of Linux that has PREEMPT_RT without a patch: x86-64 and arm64 since 6.12.
    pub(crate) fn has_preempt_rt(&self) -> bool {
        self.numbers().as_slice() >= [6, 12].as_slice()
    }

    /// Numbers, so that 6.10 is later than 6.9.
    fn numbers(&self) -> Vec<u32> {
        let numbers = self.version.split('.');
        numbers.map_while(|number| number.parse().ok()).collect()
    }
}

impl Fix {
    fn folder(&self, series: &Series) -> PathBuf {
        Path::new(&self.name).join(&series.version)
    }

    /// Patches of a series that belong to this fix alone, in order.
    #[must_use]
    pub fn patches(&self, series: &Series) -> Vec<Patch> {
        patches_in(&self.folder(series))
    }

    /// Patches to apply to a tree: those of the fixes before it, then its own.
    #[must_use]
    pub fn stack(&self, series: &Series) -> Vec<Patch> {
        // A test looks all of them up.
        let before = self.after.iter().filter_map(|name| find(name).ok());
        let patches = before.flat_map(|fix| fix.stack(series));
        patches.chain(self.patches(series)).collect()
    }

    /// Objects that must compile beside the lab's kernel, for each configuration that a series of Linux has.
    pub(crate) fn compiles(&self, series: &Series) -> impl Iterator<Item = Compile<'_>> {
        // A test reads them all.
        let mut known = configurations().unwrap_or_default();
        let compiles = self.compile.iter().filter_map(move |(name, targets)| {
            Some(Compile {
                name,
                configuration: known.remove(name)?,
                targets,
            })
        });
        compiles.filter(|other| !other.configuration.preempt_rt || series.has_preempt_rt())
    }

    /// Checks that the compilers of these configurations are installed.
    ///
    /// # Errors
    /// [`Error::MissingTools`].
    pub(crate) fn check_compilers(&self, series: &Series) -> Result<(), Error> {
        let mut cross = self
            .compiles(series)
            .filter_map(|other| other.configuration.cross());
        cross.try_for_each(|arch| tools::check(&[Tool::compiler(arch), Tool::linker(arch)]))
    }

    /// Text of the series' cover letter: subject, empty line, body.
    pub(crate) fn cover(&self, series: &Series) -> &'static str {
        self.text(series, "cover.txt")
    }

    /// Output of `git diff --stat` over the series.
    pub(crate) fn diffstat(&self, series: &Series) -> &'static str {
        self.text(series, "diffstat.txt")
    }

    /// A file in the folder of a series; a test reads them all.
    fn text(&self, series: &Series, name: &str) -> &'static str {
        let file = FIXES.get_file(self.folder(series).join(name));
        file.and_then(File::contents_utf8).unwrap_or_default()
    }

    /// The broken variants of a series, by name.
    pub fn variants(&self, series: &Series) -> impl Iterator<Item = Variant> + use<> {
        let patches = patches_in(&self.folder(series).join("broken"));
        patches.into_iter().filter_map(|patch| {
            let name = Path::new(patch.file).file_stem()?.to_str()?;
            Some(Variant { name, patch })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::patch;

    #[test]
    fn every_folder_is_a_fix_of_its_name() {
        let folders = FIXES.dirs().map(|folder| folder.path().to_str().unwrap());
        let names = all().iter().map(|fix| fix.name.as_str());
        assert_eq!(
            folders.collect::<BTreeSet<_>>(),
            names.chain([PREREQUISITES, REFUSALS]).collect()
        );
        assert!(all().iter().all(|fix| fix.readme.starts_with("# ")));
    }

    #[test]
    fn every_folder_of_patches_is_a_series_and_every_variant_a_control() {
        for fix in all() {
            let folder = FIXES.get_dir(&fix.name).unwrap();
            let folders: BTreeSet<_> = folder.dirs().map(|series| series.path()).collect();
            let series: Vec<_> = fix.series.iter().map(|series| fix.folder(series)).collect();
            assert_eq!(folders, series.iter().map(PathBuf::as_path).collect());
            let flavours = [Flavour::Lab, Flavour::Rt];
            let controls = flavours.iter().flat_map(|flavour| {
                let checks = fix.checks.iter();
                checks.filter_map(|check| check.control_in(*flavour))
            });
            let controls: BTreeSet<_> = controls.collect();
            for series in &fix.series {
                let variants: BTreeSet<_> =
                    fix.variants(series).map(|variant| variant.name).collect();
                assert_eq!(variants, controls, "{}@{}", fix.name, series.version);
                assert!(!fix.patches(series).is_empty());
            }
        }
    }

    #[test]
    fn a_fix_comes_after_fixes_that_have_its_series() {
        for fix in all() {
            let before = fix.after.iter().map(|name| find(name).unwrap());
            for before in before.clone() {
                assert!(before.after.iter().all(|name| *name != fix.name));
                assert_eq!(before.program, fix.program);
            }
            for series in &fix.series {
                let mut expected = Vec::new();
                for before in before.clone() {
                    let patches = before.stack(series);
                    assert!(
                        !patches.is_empty(),
                        "{} for {}",
                        before.name,
                        series.version
                    );
                    expected.extend(patches);
                }
                expected.extend(fix.patches(series));
                assert_eq!(fix.stack(series), expected);
                // A patch that two of them need would be applied twice.
                let files: BTreeSet<_> = expected.iter().map(|patch| patch.file).collect();
                assert_eq!(files.len(), expected.len(), "{}", fix.name);
            }
        }
    }

    #[test]
    fn checks_run_on_fixes_of_the_other_program() {
        let program = |name: &Option<String>| Some(find(name.as_ref()?).unwrap().program);
        for fix in all() {
            let expected = |program| (fix.program != program).then_some(program);
            assert!(fix.kernel.is_none() || program(&fix.kernel) == expected(Program::Linux));
            assert!(fix.xen.is_none() || program(&fix.xen) == expected(Program::Xen));
        }
    }

    #[test]
    fn every_configuration_is_read_and_compiled_by_a_fix() {
        let known = configurations().unwrap();
        let named = all().iter().flat_map(|fix| fix.compile.keys());
        assert_eq!(
            known.keys().collect::<BTreeSet<_>>(),
            named.collect::<BTreeSet<_>>()
        );
        let names = |fix: &str, version: &str| {
            let fix = find(fix).unwrap();
            let mut series = fix.series.iter();
            let series = series.find(|series| series.version == version).unwrap();
            fix.compiles(series)
                .map(|other| other.name)
                .collect::<Vec<_>>()
        };
        let before = ["arm64", "i386-pae", "without-xen"];
        assert_eq!(names("xen-pv-get-and-clear", "6.1"), before);
        let since = ["arm64", "i386-pae", "preempt-rt", "without-xen"];
        assert_eq!(names("xen-pv-get-and-clear", "7.3"), since);
    }

    fn every_series() -> impl Iterator<Item = (&'static Fix, &'static Series)> {
        let with_series = |fix: &'static Fix| fix.series.iter().map(move |series| (fix, series));
        all().iter().flat_map(with_series)
    }

    /// Patches beside the fixes.
    fn beside(series: &Series) -> impl Iterator<Item = Patch> {
        prerequisites(series).into_iter().chain(refusals(series))
    }

    /// Only a person can certify the origin of a patch, and sign it off.
    #[test]
    fn no_patch_is_signed_off_and_each_says_what_assisted() {
        let sent = |(fix, series): (&'static Fix, &'static Series)| {
            let own = fix.patches(series).into_iter();
            let sent = own.chain(beside(series));
            sent.map(|patch| (fix.program, patch))
        };
        for (program, patch) in every_series().flat_map(sent) {
            let message = patch.text.split("\n---\n").next().unwrap();
            let trailer = |name: &str| message.lines().any(|line| line.starts_with(name));
            assert!(!trailer("Signed-off-by:"), "{}", patch.file);
            let tag = message
                .lines()
                .find_map(|line| line.strip_prefix("Assisted-by: "));
            // Linux 7.3, Documentation/process/coding-assistants.rst; Xen, docs/process/sending-patches.pandoc.
            let fits = tag.is_some_and(|tag| match program {
                Program::Linux => tag == "LLM pagetoll",
                Program::Xen => tag.split(", ").all(|agent| agent.split(':').count() == 2),
            });
            assert!(fits, "{}: {tag:?}", patch.file);
        }
    }

    #[test]
    fn every_patch_can_be_read_and_new_files_say_their_licence() {
        let carried = |(fix, series): (&'static Fix, &'static Series)| {
            let variants = fix.variants(series).map(|variant| variant.patch);
            let own = fix.patches(series).into_iter();
            own.chain(variants).chain(beside(series))
        };
        for file in every_series().flat_map(carried) {
            let patches = patch::parse(file.text).unwrap();
            assert!(!patches.is_empty(), "{}", file.file);
            for patch in patches.iter().filter(|patch| patch.creates) {
                let text = patch.apply(None).unwrap();
                let first = text.lines().next().unwrap();
                assert!(
                    first.contains("SPDX-License-Identifier: GPL-2.0-only"),
                    "{first}"
                );
            }
        }
    }
}
