//! `pagetoll cache`: lists, verifies and cleans; every command refuses a cache that others can write to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};

use crate::{pagetoll, text};

fn run(arguments: &[&str], cache: &Path) -> Output {
    let mut command = pagetoll(arguments);
    command.env("PAGETOLL_CACHE", cache).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn make(cache: &Cache, name: &str, text: &str) -> Entry {
    let write = |path: &Path| fs::write(path, text).map_err(Error::io("write", path));
    cache.entry(name, &Stop::new(), write).unwrap()
}

/// A cache with two entries and a record.
fn furnished() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
    make(&cache, "xen/one.elf", "hypervisor");
    make(&cache, "fix/kernels/two", "kernel");
    cache.record("suites/sid.json", b"{}").unwrap();
    (folder, cache)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(items: &serde_json::Value) -> Vec<&str> {
    let items = items.as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn a_cache_is_listed_and_an_absent_one_is_not_made() {
    let (folder, cache) = furnished();
    let listed = run(&["cache", "--format", "json"], cache.root());
    assert_eq!(code(&listed), 0, "{}", stderr(&listed));
    let list = json(&listed);
    assert_eq!(
        names(&list["items"]),
        ["fix/kernels/two", "suites/sid.json", "xen/one.elf"]
    );
    let total: u64 = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(list["bytes"], total);
    let text = stdout(&run(&["cache"], cache.root()));
    assert!(
        text.contains("one.elf") && text.contains("3 items"),
        "{text}"
    );

    let absent = folder.path().join("absent");
    for arguments in [&["cache"][..], &["cache", "verify"]] {
        assert_eq!(code(&run(arguments, &absent)), 0);
        assert!(!absent.exists(), "{arguments:?}");
    }
}

#[test]
fn verify_names_what_differs_changes_nothing_and_fails() {
    let (_folder, cache) = furnished();
    let place = cache.path("xen/one.elf");
    drop(cache);
    let root = place.parent().unwrap().parent().unwrap();
    let sound = run(&["cache", "verify"], root);
    assert_eq!(code(&sound), 0, "{}", stderr(&sound));
    fs::write(&place, "hypervisoR").unwrap();
    for _ in 0..2 {
        let altered = run(&["cache", "verify"], root);
        assert_eq!(code(&altered), 1);
        let text = stderr(&altered);
        assert!(
            text.contains("xen/one.elf") && text.contains("has another SHA-256"),
            "{text}"
        );
    }
    let manifest = root.join("manifests/fix%kernels%two");
    fs::write(&manifest, "torn").unwrap();
    let text = stderr(&run(&["cache", "verify"], root));
    assert!(
        text.contains("fix/kernels/two") && text.contains("is damaged"),
        "{text}"
    );
}

#[test]
fn clean_removes_what_is_meant_and_not_what_is_used() {
    let (_folder, cache) = furnished();
    let root = cache.root().to_path_buf();
    let dry = run(&["cache", "clean", "--dry-run", "--format", "json"], &root);
    let freed = json(&dry);
    // This process uses both entries.
    assert_eq!(names(&freed["in_use"]), ["fix/kernels/two", "xen/one.elf"]);
    assert_eq!(names(&freed["removed"]), ["suites/sid.json"]);
    assert!(root.join("suites/sid.json").exists());
    drop(cache);

    let none = run(
        &["cache", "clean", "--older-than", "1h", "--format", "json"],
        &root,
    );
    assert_eq!(names(&json(&none)["removed"]), [""; 0]);
    let xen = run(&["cache", "clean", "--kind", "xen"], &root);
    assert!(
        stdout(&xen).contains("10 B freed: 1 item"),
        "{}",
        stdout(&xen)
    );
    assert!(!root.join("xen/one.elf").exists() && !root.join("manifests/xen%one.elf").exists());
    assert!(root.join("fix/kernels/two").exists());
    let all = run(&["cache", "clean"], &root);
    assert_eq!(code(&all), 0, "{}", stderr(&all));
    assert!(!root.join("fix/kernels/two").exists() && !root.join("suites/sid.json").exists());
    let after = run(&["cache", "--format", "json"], &root);
    assert_eq!(names(&json(&after)["items"]), [""; 0]);
}

#[test]
fn an_age_without_a_unit_and_an_unknown_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value, expected) in [
        ("--older-than", "30", "such as 30d"),
        ("--kind", "tmp", "vmlinux"),
    ] {
        let refused = run(&["cache", "clean", option, value], folder.path());
        assert_eq!(code(&refused), 2);
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    }
}

#[test]
fn a_cache_that_others_can_write_to_is_refused_and_doctor_says_so() {
    let (_folder, cache) = furnished();
    let root = cache.root().to_path_buf();
    drop(cache);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    let before: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for arguments in [
        &["cache"][..],
        &["cache", "verify"],
        &["cache", "clean"],
        &["conformance", "--on", "lab"],
    ] {
        let refused = run(arguments, &root);
        assert_eq!(code(&refused), 3, "{arguments:?}");
        let text = stderr(&refused);
        if !text.contains("not installed") {
            assert!(
                text.contains("can be written by others") && text.contains("chmod -R go-w"),
                "{text}"
            );
        }
    }
    let doctor = stdout(&run(&["doctor", "--format", "json"], &root));
    assert!(doctor.contains("can be written by others"), "{doctor}");
    let after: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_process_without_file_descriptors_is_not_told_that_libraries_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -n 10; exec \"$0\" bill irq --on lab";
    let mut limited = Command::new("sh");
    let limited = limited.args(["-c", script, env!("CARGO_BIN_EXE_pagetoll")]);
    let output = limited
        .env("PAGETOLL_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(code(&output), 3, "{text}");
    assert!(
        !text.contains("libc.a") && !text.contains("libelf"),
        "{text}"
    );
}
