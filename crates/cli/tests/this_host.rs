//! Measuring this host, holding the model against it, and saying what it lacks, as users see it; skipped with the reason
//! where there is no KVM, or where the lack cannot be made.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_bill::cost::{CostKey, Host, Kind};
use pagetoll_live::host;

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("pagetoll").to_path_buf()
}

fn pagetoll(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Whether this host cannot be billed, which is told.
fn is_skipped(name: &str) -> bool {
    let missing = host::check().err();
    if let Some(reason) = &missing {
        eprintln!("skipped: {name}: {reason}");
    }
    missing.is_some()
}

fn ended(output: &Output, code: i32, words: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    for word in words {
        assert!(told.contains(word), "no {word:?} in {told}");
    }
}

#[test]
fn a_table_of_this_host_is_read_again_and_prices_the_model() {
    if is_skipped("calibrate --this-host") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("desk.toml");
    let file = path.to_str().unwrap();
    let measured = pagetoll(&["calibrate", "--this-host", "--rounds", "1", "-o", file]);
    ended(&measured, 0, &[]);
    let table = fs::read_to_string(&path).unwrap();
    let host = Host::parse(file, &table).unwrap();
    assert_eq!(host.name, "this-host");
    assert!(host.topology().is_ok());
    for key in [
        CostKey::DEMAND_TOUCH,
        CostKey::DEMAND_EXIT,
        CostKey::DEMAND_COPY_PAGE,
    ] {
        let figure = host.figure(key).unwrap();
        assert_eq!(figure.kind, Kind::Measured, "{key}");
        assert!(figure.value > 0.0, "{key}");
    }
    assert!(table.contains("# ") && table.contains("UFFDIO_COPY DONTWAKE, 16 a call"));

    let order = ["--pages", "64", "--runs", "1", "--format", "json"];
    let compared = pagetoll(&[&["validate", "--live", "--host", file], order.as_slice()].concat());
    ended(&compared, 0, &[]);
    let compared: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
    // populated and kernel on 1 to 4 vCPUs, uffd and exit at four batches too.
    let points = compared["points"].as_array().unwrap();
    assert_eq!(points.len(), 2 * 4 + 2 * 4 * 4);
    let calibrated = points.iter().filter(|point| point["calibrates"] == true);
    assert_eq!(calibrated.count(), 3);
    assert!(compared["median_error"].as_f64().is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |arguments: &[&str], words: &[&str]| ended(&pagetoll(arguments), 2, words);
    refused(&["calibrate"], &["<BILLS>"]);
    refused(&["calibrate", "--this-host", "bill.json"], &["--this-host"]);
    refused(
        &["calibrate", "--this-host", "--rounds", "0"],
        &["--rounds 0", "1 to 1000"],
    );
    refused(&["calibrate", "--rounds", "3", "bill.json"], &["--rounds"]);
    refused(&["validate", "--host", "this-host"], &["--live"]);
    if !is_skipped("validate --live") {
        let order = [
            "validate", "--live", "--pages", "1", "--runs", "1", "--host",
        ];
        refused(&[&order[..], &["no/such.toml"]].concat(), &["no/such.toml"]);
    }
}

fn beside(path: &Path) -> Output {
    let order =
        "bill demand --mechanism uffd --batch 1 --vcpus 1 --pages 64 --runs 1 --format json";
    let mut command = Command::new(program());
    command.args(order.split(' ')).arg("--beside").arg(path);
    command.output().unwrap()
}

/// A program that says this.
fn stand_in(folder: &Path, says: &str) -> PathBuf {
    let path = folder.join("demand_paging_test");
    fs::write(&path, format!("#!/bin/sh\n{says}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_kernels_own_test_stands_beside_or_it_is_told_why_not() {
    let folder = tempfile::tempdir().unwrap();
    ended(
        &beside(Path::new("no/such/test")),
        2,
        &["--beside no/such/test", "demand_paging_test"],
    );
    ended(&beside(Path::new("/etc/passwd")), 2, &["not executable"]);
    if is_skipped("--beside") {
        return;
    }
    let dumb = stand_in(folder.path(), "echo hello");
    ended(
        &beside(&dumb),
        3,
        &["no line \"Overall demand paging rate:"],
    );
    let skips = stand_in(folder.path(), "echo no KVM; exit 4");
    ended(&beside(&skips), 3, &["exit status: 4", "no KVM"]);

    let talks = stand_in(
        folder.path(),
        "echo 'Overall demand paging rate: 1000.5 pgs/sec'",
    );
    let output = beside(&talks);
    ended(&output, 0, &[]);
    let bill: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = bill["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["ring"]), (2, &serde_json::json!(0)));
    assert_eq!(rows[1]["operation"], "demand_paging_test");
    assert_eq!(rows[1]["pages_per_second"], 1000.5);
}

/// Whether a process is gone, or dead and not waited for.
fn is_dead(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Waits for something that another process does.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_kernels_own_test_does_not_outlive_a_bill_that_is_killed() {
    if is_skipped("killed beside") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let says = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600",
        note.display()
    );
    let stand_in = stand_in(folder.path(), &says);
    let mut bill = Command::new(program())
        .args([
            "bill",
            "demand",
            "--mechanism",
            "uffd",
            "--batch",
            "1",
            "--pages",
            "64",
        ])
        .arg("--beside")
        .arg(&stand_in)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the test is run", || note.exists());
    let pid = fs::read_to_string(&note).unwrap();
    bill.kill().unwrap();
    bill.wait().unwrap();
    eventually("the test is dead", || is_dead(pid.trim()));
}

/// Runs pagetoll as somebody, or somewhere, that lacks something; nothing where that cannot be made here.
fn without(name: &str, wrapper: &[&str], arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(reachable()).args(arguments);
    let tried = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg("/bin/true")
        .status();
    match tried {
        Ok(status) if status.success() => Some(command.output().unwrap()),
        other => {
            eprintln!("skipped: {name}: {} cannot do it: {other:?}", wrapper[0]);
            None
        }
    }
}

/// The program where anybody may run it: folders of builds may be closed to others.
fn reachable() -> PathBuf {
    let path = std::env::temp_dir().join(format!("pagetoll-test-{}", std::process::id()));
    if !path.exists() {
        let fresh = path.with_extension(format!("{:?}", std::thread::current().id()));
        fs::copy(program(), &fresh).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&fresh, &path).unwrap();
    }
    path
}

/// Removes what `reachable` made.
struct Tidy;

impl Drop for Tidy {
    fn drop(&mut self) {
        let _ = fs::remove_file(reachable());
    }
}

/// A lack is told by the bill, with exit code 3, and by doctor.
fn told(name: &str, wrapper: &[&str], words: &[&str]) {
    let order = [
        "bill", "demand", "--on", "live", "--pages", "64", "--runs", "1",
    ];
    if let Some(output) = without(name, wrapper, &order) {
        ended(&output, 3, words);
        assert!(output.stdout.is_empty());
    }
    if let Some(output) = without(name, wrapper, &["doctor"]) {
        let said = text(&output.stdout);
        for word in words {
            assert!(said.contains(word), "{name}: no {word:?} in {said}");
        }
    }
}

#[test]
fn what_the_host_lacks_is_told_by_the_bill_and_by_doctor() {
    let _tidy = Tidy;
    if is_skipped("lacks") {
        return;
    }
    let hidden = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";
    told(
        "no /dev/kvm",
        &["unshare", "-m", "sh", "-c", hidden],
        &["/dev/kvm", "absent", "kvm_intel"],
    );

    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    if fs::metadata("/dev/kvm").is_ok_and(|kvm| kvm.mode() & 0o006 == 0) {
        told(
            "no permission",
            &nobody,
            &["/dev/kvm", "permission denied", "group"],
        );
    } else {
        eprintln!("skipped: no permission: /dev/kvm is open to everybody");
    }
    userfaultfd_is_closed();
}

/// To somebody who may use KVM, and userfaultfd for faults of user space only.
fn userfaultfd_is_closed() {
    let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    let device = fs::metadata("/dev/userfaultfd");
    if allowed.trim() == "1" || device.is_ok_and(|device| device.mode() & 0o006 != 0) {
        eprintln!("skipped: userfaultfd closed: it is open to everybody");
        return;
    }
    let group = fs::metadata("/dev/kvm").unwrap().gid();
    let group = format!("--regid={group}");
    let of_kvm = ["setpriv", "--reuid=65534", &group, "--clear-groups"];
    told(
        "userfaultfd closed",
        &of_kvm,
        &["userfaultfd", "unprivileged_userfaultfd=1"],
    );
}

#[test]
fn huge_pages_that_are_not_there_are_told_with_the_way_to_get_them() {
    if is_skipped("huge pages") {
        return;
    }
    let size = OsStr::new("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages");
    let free = fs::read_to_string(size).unwrap_or_default();
    if free.trim() != "0" && !free.is_empty() {
        eprintln!("skipped: no huge pages: there are some");
        return;
    }
    let order = "bill demand --on live --memory hugetlb-1g --vcpus 1 --pages 262144 --runs 1";
    let order: Vec<&str> = order.split(' ').collect();
    let output = pagetoll(&order);
    ended(&output, 3, &["hugetlb"]);
    let doctor = pagetoll(&["doctor"]);
    assert!(text(&doctor.stdout).contains("hugetlb pages of 1G"));
}
