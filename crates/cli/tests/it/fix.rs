//! `pagetoll fix` where nothing can be built: what it says of unknown fixes, of trees, and of tools that are missing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use assert_cmd::Command;
use pagetoll_test_support::skip;

use crate::{assert_refused, pagetoll};

const FIX: &str = "xen-pv-get-and-clear";
/// Programs that a build calls before a compiler, but for flex.
const WITHOUT_FLEX: [&str; 11] = [
    "make",
    "gcc",
    "ld",
    "bison",
    "bc",
    "tar",
    "xz",
    "apt-get",
    "apt-cache",
    "dpkg-deb",
    "setpriv",
];

fn fix(arguments: &[&str], cache: &Path) -> Command {
    let mut command = pagetoll(&["fix"]);
    command.args(arguments).env("PAGETOLL_CACHE", cache);
    command
}

fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let cache = tempfile::tempdir().unwrap();
    let output = fix(arguments, cache.path()).output().unwrap();
    assert_refused(&output, code, words);
}

#[test]
fn a_series_is_exported_with_its_letter_into_an_empty_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("outgoing");
    let export = || {
        let mut command = fix(&["export", FIX], folder.path());
        command.arg(&place).output().unwrap()
    };
    assert!(export().status.success());
    let letter = fs::read_to_string(place.join("0000-cover-letter.patch")).unwrap();
    assert!(letter.contains("Subject: [PATCH 0/3] "), "{letter}");
    assert!(!letter.contains("Signed-off-by:"), "{letter}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 4);
    assert_refused(&export(), 2, &["outgoing: holds files", "an empty folder"]);
}

#[test]
fn what_debug_kernels_need_is_exported_without_a_letter() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bug-fixes");
    let mut export = fix(&["export", "none@7.3"], folder.path());
    assert!(export.arg(&place).output().unwrap().status.success());
    let files: Vec<_> = fs::read_dir(&place).unwrap().flatten().collect();
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("\nSubject: [PATCH] "), "{text}");
        assert!(!text.contains("Signed-off-by:"), "{text}");
    }
    let none = ["export", "none@4.17", "bug-fixes"];
    refused(&none, 2, &["none@4.17"]);
}

#[test]
fn what_is_of_the_other_program_is_refused() {
    let xen = "xen-mmu-update-batch";
    for option in [["--source", "/"], ["--jobs", "2"]] {
        let words = [option[0], "not supported", "of Xen, which is built"];
        refused(&["build", xen, option[0], option[1]], 2, &words);
    }
    refused(
        &["check", xen, "--xen", "xen.gz"],
        2,
        &["--xen: not supported"],
    );
    refused(
        &["check", "kvm-no-host-walk", "--xen", "debian"],
        2,
        &["--xen: not supported", "boot none"],
    );
    refused(&["check", xen, "--bisect"], 2, &["--bisect: not supported"]);
    refused(&["build", xen, "--vfio"], 2, &["--vfio: not supported"]);
    let unknown = ["check", xen, "--check", "swap,foreign"];
    refused(&unknown, 2, &["has no check 'swap'", "accounting"]);
    let own = ["check", xen, "--kernel", "debian"];
    refused(&own, 2, &["--kernel: not supported"]);
    for (option, name, words) in [
        ("--kernel", xen, "is a fix of Xen; expected a fix of Linux"),
        ("--xen", FIX, "is a fix of Linux; expected a fix of Xen"),
    ] {
        let mut bill = pagetoll(&["bill", "irq", option, &format!("fix:{name}")]);
        assert_refused(&bill.output().unwrap(), 2, &[name, words]);
    }
}

/// A tree of Linux as far as its version goes, and one file.
fn tree(version: &str, file: (&str, &str)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (major, minor) = version.split_once('.').unwrap();
    let makefile = format!("VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 1\n");
    fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let path = folder.path().join(file.0);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, file.1).unwrap();
    folder
}

/// Expects the tree to be rejected, or an error about build tools that this machine lacks, which are checked first.
fn refused_tree(tree: &Path, words: &[&str]) {
    let cache = tempfile::tempdir().unwrap();
    let source = tree.to_str().unwrap();
    let arguments = ["build", "xen-pv-get-and-clear@6.1", "--source", source];
    let output = fix(&arguments, cache.path()).output().unwrap();
    if output.status.code() == Some(3) {
        skip!("{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_refused(&output, 2, words);
}

#[test]
fn unknown_fixes_and_series_are_rejected_with_the_known_ones() {
    refused(
        &["build", "no-such-fix"],
        2,
        &["no-such-fix", "one of: ", FIX],
    );
    refused(&["check", "no-such-fix"], 2, &["no-such-fix"]);
    refused(
        &["build", "xen-pv-get-and-clear@5.10"],
        2,
        &["no patches for Linux 5.10", "6.1"],
    );
    refused(&["check", "none"], 2, &["expected a fix's name"]);
}

#[test]
fn without_a_compiler_every_package_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = fix(&["build", FIX], cache.path());
    let output = command.env("PATH", "/nonexistent").output().unwrap();
    assert_refused(&output, 3, &["gcc", "apt-get install", "bison", "flex"]);
}

#[test]
fn a_missing_build_package_is_named_with_its_install_command() {
    let tools = tempfile::tempdir().unwrap();
    for tool in WITHOUT_FLEX {
        let real = Path::new("/usr/bin").join(tool);
        symlink(real, tools.path().join(tool)).unwrap();
    }
    let cache = tempfile::tempdir().unwrap();
    let mut command = fix(&["build", FIX], cache.path());
    let output = command.env("PATH", tools.path()).output().unwrap();
    assert_refused(&output, 3, &["not installed: flex", "apt-get install"]);
}

#[test]
fn a_tree_of_another_version_is_refused() {
    let tree = tree("5.10", ("mm/memory.c", "int x;\n"));
    refused_tree(tree.path(), &["is Linux 5.10.1", "patches for Linux 6.1"]);
}

#[test]
fn a_patch_that_does_not_apply_is_reported_with_file_and_hunk() {
    // The first patch is that of the fix which comes before.
    let (patch, file) = ("0001-x86-xen-Store", "arch/x86/xen/mmu_pv.c");
    let without = tree("6.1", ("mm/memory.c", "int x;\n"));
    refused_tree(without.path(), &[patch, file, "is not there"]);
    let other = tree("6.1", (file, "int x;\n"));
    let words = [patch, file, "hunk 1 (line 331) does not apply: expected"];
    refused_tree(other.path(), &words);
}
