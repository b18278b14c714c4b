//! The fixes that this program carries: `fixes/`, one folder each.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::error::FixError;

/// A fix, as its `fix.toml` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// Its name, and its folder's.
    pub name: String,
    /// What it does, in one line.
    pub summary: String,
    /// The documents and figures that ask for it are told in its README.
    #[serde(skip)]
    pub readme: &'static str,
    /// Where its checks are run.
    #[serde(default)]
    pub bench: Bench,
    /// The checks that prove it.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
    /// Its patches, for each series of Linux; the first is meant when nobody says which.
    pub series: Vec<Series>,
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
}

/// A check inside the guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name in `checks.c` of `guests/init` or `guests/demand-probe`.
    pub name: String,
    /// Pages that it works on, or operations on pages.
    pub pages: u32,
    /// The variant of the fix that is broken so that this check must fail on it.
    pub control: String,
    /// It needs two CPUs to prove anything.
    #[serde(default)]
    pub races: bool,
}

/// Patches for one series of Linux.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Version and patch level, such as `6.1`.
    pub linux: String,
    /// The suite of Debian that has its source; the system's own where this is absent.
    #[serde(default)]
    pub suite: Option<String>,
    /// Lines that a build prints; for the progress bar only.
    pub build_lines: u64,
    /// File names, in order.
    pub patches: Vec<String>,
    /// Names of the broken variants, each one patch over all others.
    pub broken: Vec<String>,
}

/// A patch and its file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Below the fix's folder.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(Patch { file: $name, text: include_str!(concat!("../../../fixes/", $name)) }),*]
    };
}

/// Every file of every fix.
const FILES: &[Patch] = files![
    "xen-pv-get-and-clear/6.1/0001-x86-xen-read-and-clear-page-table-entries-of-PV-gues.patch",
    "xen-pv-get-and-clear/6.1/0002-mm-clear-runs-of-present-entries-together-where-entr.patch",
    "xen-pv-get-and-clear/6.1/0003-x86-xen-write-protect-entries-of-PV-guests-by-hyperc.patch",
    "xen-pv-get-and-clear/6.1/broken/cows-in-runs.patch",
    "xen-pv-get-and-clear/6.1/broken/dirty-dropped.patch",
    "xen-pv-get-and-clear/6.1/broken/fork-drops-dirty.patch",
    "xen-pv-get-and-clear/6.1/broken/fork-not-protected.patch",
    "xen-pv-get-and-clear/6.1/broken/fork-update-plain.patch",
    "xen-pv-get-and-clear/6.1/broken/last-of-run-forgotten.patch",
    "xen-pv-get-and-clear/6.1/broken/leftovers-ignored.patch",
    "xen-pv-get-and-clear/6.1/broken/soft-dirty-dropped.patch",
    "xen-pv-get-and-clear/6.1/broken/uffd-wp-dropped.patch",
    "xen-pv-get-and-clear/7.3/0001-x86-xen-resume-lazy-MMU-mode-only-of-tasks-that-paus.patch",
    "xen-pv-get-and-clear/7.3/0002-x86-xen-read-and-clear-page-table-entries-of-PV-gues.patch",
    "xen-pv-get-and-clear/7.3/0003-mm-ksm-look-at-the-dirty-bit-before-the-frame.patch",
    "xen-pv-get-and-clear/7.3/0004-mm-clear-runs-of-present-entries-together-where-entr.patch",
    "xen-pv-get-and-clear/7.3/0005-x86-xen-write-protect-entries-of-PV-guests-by-hyperc.patch",
    "xen-pv-get-and-clear/7.3/broken/cows-in-runs.patch",
    "xen-pv-get-and-clear/7.3/broken/dirty-dropped.patch",
    "xen-pv-get-and-clear/7.3/broken/fork-drops-dirty.patch",
    "xen-pv-get-and-clear/7.3/broken/fork-not-protected.patch",
    "xen-pv-get-and-clear/7.3/broken/fork-update-plain.patch",
    "xen-pv-get-and-clear/7.3/broken/last-of-run-forgotten.patch",
    "xen-pv-get-and-clear/7.3/broken/leftovers-ignored.patch",
    "xen-pv-get-and-clear/7.3/broken/soft-dirty-dropped.patch",
    "xen-pv-get-and-clear/7.3/broken/uffd-wp-dropped.patch",
    "xen-pv-get-and-clear/README.md",
    "xen-pv-get-and-clear/fix.toml",
    "kvm-exit-on-missing/7.3/0001-KVM-Tell-how-missing-memory-was-accessed-in-KVM_EXIT.patch",
    "kvm-exit-on-missing/7.3/0002-KVM-Add-a-memslot-flag-to-exit-to-userspace-on-missi.patch",
    "kvm-exit-on-missing/7.3/0003-KVM-x86-Exit-to-userspace-on-missing-mappings-where-.patch",
    "kvm-exit-on-missing/7.3/broken/address-off.patch",
    "kvm-exit-on-missing/7.3/broken/every-slot.patch",
    "kvm-exit-on-missing/7.3/broken/faults-in.patch",
    "kvm-exit-on-missing/7.3/broken/forgets-to-fault.patch",
    "kvm-exit-on-missing/7.3/broken/read-only-accepted.patch",
    "kvm-exit-on-missing/7.3/broken/sleeps.patch",
    "kvm-exit-on-missing/7.3/broken/writes-as-reads.patch",
    "kvm-exit-on-missing/7.3/broken/wrong-frame.patch",
    "kvm-exit-on-missing/README.md",
    "kvm-exit-on-missing/fix.toml",
];

/// All fixes.
#[must_use]
pub fn all() -> &'static [Fix] {
    static ALL: OnceLock<Vec<Fix>> = OnceLock::new();
    ALL.get_or_init(|| {
        let descriptions = FILES.iter().filter(|file| file.file.ends_with("/fix.toml"));
        // A test reads them all: none is damaged.
        descriptions.filter_map(|file| read(file).ok()).collect()
    })
}

fn read(description: &Patch) -> Result<Fix, toml::de::Error> {
    let mut fix: Fix = toml::from_str(description.text)?;
    let readme = file(&format!("{}/README.md", fix.name));
    fix.readme = readme.map_or("", |file| file.text);
    Ok(fix)
}

fn file(name: &str) -> Option<Patch> {
    FILES.iter().find(|file| file.file == name).copied()
}

/// The fix of this name.
///
/// # Errors
/// [`FixError::BadInput`] with the names that there are.
pub fn find(name: &str) -> Result<&'static Fix, FixError> {
    all().iter().find(|fix| fix.name == name).ok_or_else(|| {
        let names: Vec<_> = all().iter().map(|fix| fix.name.as_str()).collect();
        FixError::BadInput {
            what: "fix",
            value: name.to_owned(),
            problem: "there is no such fix".into(),
            expected: format!("one of: {}", names.join(", ")),
        }
    })
}

impl Fix {
    /// The patches of a series, in order.
    pub fn patches(&self, series: &Series) -> Vec<Patch> {
        let named = series.patches.iter();
        named
            .filter_map(|name| file(&format!("{}/{}/{name}", self.name, series.linux)))
            .collect()
    }

    /// The patch that breaks the series in this way; `None` where the series has no such variant.
    #[must_use]
    pub fn broken(&self, series: &Series, variant: &str) -> Option<Patch> {
        series.broken.iter().find(|name| *name == variant)?;
        file(&format!(
            "{}/{}/broken/{variant}.patch",
            self.name, series.linux
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::patch;

    fn files_below(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn every_file_of_every_fix_is_carried_and_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixes");
        let mut found = Vec::new();
        files_below(&root, &mut found);
        let carried: BTreeSet<_> = FILES.iter().map(|file| file.file.to_owned()).collect();
        let prefix = format!("{}/", root.display());
        let folders: BTreeSet<_> = found
            .iter()
            .map(|path| path.trim_start_matches(&prefix).to_owned())
            .filter(|path| path.contains('/'))
            .collect();
        assert_eq!(folders, carried);
    }

    #[test]
    fn descriptions_can_be_read_and_name_files_that_are_there() {
        let descriptions = FILES.iter().filter(|file| file.file.ends_with("/fix.toml"));
        for description in descriptions {
            let fix = read(description).unwrap();
            assert!(fix.readme.starts_with("# "), "{}", fix.name);
            for series in &fix.series {
                assert_eq!(
                    fix.patches(series).len(),
                    series.patches.len(),
                    "{}",
                    fix.name
                );
                for variant in &series.broken {
                    assert!(fix.broken(series, variant).is_some(), "{variant}");
                }
            }
            for check in &fix.checks {
                let mut series = fix.series.iter();
                let caught = series.any(|series| series.broken.contains(&check.control));
                assert!(caught, "{}", check.name);
            }
        }
    }

    #[test]
    fn every_patch_can_be_read_and_new_files_say_their_licence() {
        for file in FILES.iter().filter(|file| file.file.ends_with(".patch")) {
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
