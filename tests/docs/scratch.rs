//! A folder that a snippet runs in: this repository's folders, the program on PATH, and files that snippets read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Failed;

use super::page::root;

/// Files that snippets read as if the reader had made them: the name, and the file of this repository.
const FIXTURES: [(&str, &str); 12] = [
    ("old.json", "docs/bill.json"),
    ("new.json", "docs/bill.json"),
    ("base.json", "docs/bill.json"),
    ("unmap.json", "costs/lab-xen-4.17.bills/unmap.json"),
    ("switch.json", "costs/lab-xen-4.17.bills/switch.json"),
    ("2M.json", "costs/lab-vfio.bills/2M.json"),
    ("2M-48-bits.json", "costs/lab-vfio.bills/2M-48-bits.json"),
    (
        "dom0.xentrace",
        "crates/xentrace/tests/data/xentrace-unmap.bin",
    ),
    ("vm.data", "crates/captures/tests/data/kvm-zstd.perf.data"),
    (
        "kvm_stat.csv",
        "crates/captures/tests/data/counters/kvm_stat-l-c.csv",
    ),
    (
        "exits.txt",
        "crates/captures/tests/data/reports/perf-kvm-vmexit.txt",
    ),
    ("this-host.toml", "costs/x86-256-core.toml"),
];

/// Variables that a make which runs this test hands down to its children.
const MAKE_VARIABLES: [&str; 3] = ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"];

pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// A folder with the program on PATH and nothing else.
    pub(crate) fn empty() -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let bin = folder.path().join(".bin");
        fs::create_dir(&bin)?;
        symlink(env!("CARGO_BIN_EXE_pagetoll"), bin.join("pagetoll"))?;
        Ok(Self { folder })
    }

    /// One with this repository's folders and the fixtures.
    pub(crate) fn filled() -> Result<Self, Failed> {
        let scratch = Self::empty()?;
        for entry in fs::read_dir(root().canonicalize()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                symlink(entry.path(), scratch.path().join(name))?;
            }
        }
        for (name, source) in FIXTURES {
            fs::copy(root().join(source), scratch.path().join(name))?;
        }
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder in front of PATH; programs in it stand in for others.
    pub(crate) fn bin(&self) -> PathBuf {
        self.path().join(".bin")
    }

    /// Runs a script in `folder`; each command has to succeed.
    pub(crate) fn shell(
        &self,
        folder: &Path,
        script: &str,
        variables: &[(&str, &str)],
    ) -> Result<Output, Failed> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        for variable in MAKE_VARIABLES {
            shell.env_remove(variable);
        }
        shell.args(["-e", "-c", script]).current_dir(folder);
        shell.env("PATH", format!("{}:{path}", self.bin().display()));
        shell
            .env("PAGETOLL_CACHE", cache())
            .envs(variables.iter().copied());
        Ok(shell.output()?)
    }
}

/// The cache that tests on real guests share.
pub(crate) fn cache() -> PathBuf {
    let below_target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
    std::env::var_os("PAGETOLL_CACHE").map_or_else(below_target, PathBuf::from)
}
