//! `calibrate --this-host`, `validate --live`, live bills beside the kernel's own test, and the refusals of a host that
//! lacks something. Tests are skipped where KVM is missing, or where the lack cannot be arranged.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use pagetoll_cost::{CostKey, CostTable, Kind};
use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::{assert_ended, eventually, pagetoll, program, text};

#[test]
fn the_guardian_heeds_no_signal_and_undoes_at_the_end_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    fs::write(&journal, "{\"module\":\"pagetoll_no_such\"}\n").unwrap();
    let (mut alive, theirs) = UnixStream::pair().unwrap();
    let mut guardian = Command::new(program())
        .arg("guard")
        .arg(&journal)
        .stdin(OwnedFd::from(theirs))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says that it is there.
    alive.read_exact(&mut [0]).unwrap();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        kill_process(Pid::from_child(&guardian), signal).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(guardian.try_wait().unwrap().is_none(), "{signal:?}");
    }
    assert!(journal.exists());
    drop(alive);
    let output = guardian.wait_with_output().unwrap();
    assert!(!journal.exists());
    // A kernel without CONFIG_MODULES answers ENOSYS to all users: there is no module to unload.
    let has_modules = Path::new("/proc/modules").exists();
    match rustix::process::geteuid().is_root() || !has_modules {
        true => assert_ended(&output, 0, &[]),
        false => assert_ended(
            &output,
            3,
            &["module pagetoll_no_such is loaded, and that was not undone"],
        ),
    }
}

#[test]
fn a_table_of_this_host_is_read_again_and_prices_the_model() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("desk.toml");
    let file = path.to_str().unwrap();
    let measured = pagetoll(&[
        "calibrate",
        "--this-host",
        "--busy",
        "--rounds",
        "1",
        "-o",
        file,
    ])
    .output()
    .unwrap();
    assert_ended(&measured, 0, &[]);
    let table = fs::read_to_string(&path).unwrap();
    let host = CostTable::parse(file, &table).unwrap();
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

    let order = ["--busy", "--pages", "64", "--runs", "1", "--format", "json"];
    let compared = pagetoll(&[&["validate", "--live", "--costs", file], order.as_slice()].concat())
        .output()
        .unwrap();
    assert_ended(&compared, 0, &[]);
    let compared: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
    // populated and kernel on 1 to 4 vCPUs, uffd and exit at four batches too.
    let points = compared["points"].as_array().unwrap();
    assert_eq!(points.len(), 2 * 4 + 2 * 4 * 4);
    // uffd on one vCPU; populated, kernel and exit on one CPU, and on the largest power of two of those that there are.
    let calibrated = points.iter().filter(|point| point["calibrates"] == true);
    let calibrated = calibrated.count();
    assert!([4, 7].contains(&calibrated), "{calibrated}");
    assert!(compared["median_error"].as_f64().is_some());
    assert_eq!(
        compared["coverage"]["predictions"],
        points.len() - calibrated
    );
    assert!(compared["host_load"]["waited"].as_f64().is_some());
}

#[test]
fn conflicting_options_are_refused() {
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_ended(&pagetoll(arguments).output().unwrap(), 2, words)
    };
    refused(&["calibrate"], &["<BILLS>"]);
    refused(&["calibrate", "--this-host", "bill.json"], &["--this-host"]);
    refused(
        &["calibrate", "--this-host", "--rounds", "0"],
        &["--rounds 0", "1 to 1000"],
    );
    refused(&["calibrate", "--rounds", "3", "bill.json"], &["--rounds"]);
    refused(&["calibrate", "--probe", "x.ko", "bill.json"], &["--probe"]);
    refused(
        &["calibrate", "--this-host", "--probe", "x.ko"],
        &["--probe x.ko", "Xen PV guest"],
    );
    refused(&["validate", "--costs", "this-host"], &["--live"]);
    refused(&["validate", "--busy"], &["--live"]);
    refused(&["calibrate", "--busy", "bill.json"], &["--busy"]);
    if let Err(reason) = host::check() {
        skip!("validate --live: {reason}");
    }
    let order = "validate --live --pages 1 --runs 1 --costs no/such.toml";
    refused(&order.split(' ').collect::<Vec<_>>(), &["no/such.toml"]);
}

/// Threads that work until this is dropped.
struct BusyLoops(Vec<std::process::Child>);

impl BusyLoops {
    fn new(count: usize) -> Self {
        let child = || {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
                .unwrap()
        };
        Self((0..count).map(|_| child()).collect())
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_busy_host_is_refused_before_anything_is_measured() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let _loops = BusyLoops::new(2 * thread::available_parallelism().unwrap().get());
    for order in ["calibrate --this-host", "validate --live"] {
        let output = pagetoll(&order.split(' ').collect::<Vec<_>>())
            .output()
            .unwrap();
        assert_ended(&output, 3, &["this host is busy", "--busy"]);
        assert!(output.stdout.is_empty());
    }
}

fn beside(path: &Path) -> Output {
    let order =
        "bill demand --mechanism uffd --batch 1 --vcpus 1 --pages 64 --runs 1 --format json";
    let mut command = Command::new(program());
    command
        .args(order.split(' '))
        .arg("--compare-selftest")
        .arg(path);
    command.output().unwrap()
}

/// A script in place of the kernel's `demand_paging_test`.
fn stand_in(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("demand_paging_test");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_kernels_own_test_is_a_row_or_its_failure_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_ended(
        &beside(Path::new("no/such/test")),
        2,
        &["--compare-selftest no/such/test", "demand_paging_test"],
    );
    assert_ended(&beside(Path::new("/etc/passwd")), 2, &["not executable"]);
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let dumb = stand_in(folder.path(), "echo hello");
    assert_ended(
        &beside(&dumb),
        3,
        &["no line \"Overall demand paging rate:"],
    );
    let skips = stand_in(folder.path(), "echo no KVM; exit 4");
    assert_ended(&beside(&skips), 3, &["exit status: 4", "no KVM"]);

    let talks = stand_in(
        folder.path(),
        "echo 'Overall demand paging rate: 1000.5 pgs/sec'",
    );
    let output = beside(&talks);
    assert_ended(&output, 0, &[]);
    let bill: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = bill["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["ring"]), (2, &serde_json::json!(0)));
    assert_eq!(rows[1]["operation"], "demand_paging_test");
    let rate = rows[1]["pages_per_second"].as_f64().unwrap();
    assert!((rate - 1000.5).abs() < 1e-9, "{rate}");
}

/// Tests for a process that is gone or a zombie.
fn is_dead(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[test]
fn the_kernels_own_test_does_not_outlive_a_bill_that_is_killed() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pid");
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600",
        note.display()
    );
    let stand_in = stand_in(folder.path(), &script);
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
        .arg("--compare-selftest")
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

/// The program in a folder of its own that every user can reach: build folders may be closed to others.
struct OpenProgram(tempfile::TempDir);

impl OpenProgram {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program(), path.join("pagetoll")).unwrap();
        fs::set_permissions(path.join("pagetoll"), fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn run(&self, wrapper: &[&str], arguments: &[&str]) -> Output {
        let mut command = Command::new(wrapper[0]);
        command
            .args(&wrapper[1..])
            .arg(self.0.path().join("pagetoll"))
            .args(arguments)
            .output()
            .unwrap()
    }
}

/// Reason why a wrapper cannot run a program here.
fn unusable(wrapper: &[&str]) -> Option<String> {
    let tried = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg("/bin/true")
        .output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(text(&output.stderr)),
        Err(error) => Some(format!("{}: {error}", wrapper[0])),
    }
}

/// Checks that under a wrapper the bill fails with exit code 3 and these words, and that doctor reports them too.
fn bill_and_doctor_report(wrapper: &[&str], words: &[&str]) {
    if let Some(reason) = unusable(wrapper) {
        skip!("{reason}");
    }
    let program = OpenProgram::new();
    let order = "bill demand --on live --pages 64 --runs 1";
    let bill = program.run(wrapper, &order.split(' ').collect::<Vec<_>>());
    assert_ended(&bill, 3, words);
    assert!(bill.stdout.is_empty());
    let doctor = text(&program.run(wrapper, &["doctor"]).stdout);
    for word in words {
        assert!(doctor.contains(word), "no {word:?} in {doctor}");
    }
}

/// A mount namespace with an empty /dev, in a user namespace so that plain users can have one.
fn with_empty_dev(then: &str) -> [String; 5] {
    let script = format!("mount -t tmpfs none /dev && {then}");
    ["unshare", "-rm", "sh", "-c", &script].map(str::to_owned)
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn bill_and_doctor_report_that_kvm_is_absent() {
    let wrapper = with_empty_dev(r#"exec "$0" "$@""#);
    let words = ["/dev/kvm", "absent", "kvm_intel"];
    bill_and_doctor_report(&borrowed(&wrapper), &words);
}

/// The device is an ordinary file without permissions, and the program runs without capabilities: open(2) fails with
/// EACCES before the kind of file matters.
#[test]
fn bill_and_doctor_report_that_kvm_is_not_permitted() {
    let wrapper = with_empty_dev(
        r#": > /dev/kvm && chmod 0 /dev/kvm && exec setpriv --bounding-set=-all --inh-caps=-all "$0" "$@""#,
    );
    let words = ["/dev/kvm", "permission denied", "group"];
    bill_and_doctor_report(&borrowed(&wrapper), &words);
}

/// A user without capabilities, for whom /dev/kvm opens (10:232, `KVM_MINOR` of include/linux/miscdevice.h) and
/// /dev/userfaultfd is absent. Only root can make such a device.
#[test]
fn bill_and_doctor_report_that_userfaultfd_is_not_permitted() {
    const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";
    if fs::read_to_string(SYSCTL).is_ok_and(|allowed| allowed.trim() == "1") {
        skip!("{SYSCTL} is 1: every user may handle the kernel's faults");
    }
    let script = r#"mount -t tmpfs none /dev && mknod -m 666 /dev/kvm c 10 232 &&
        exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c ': <> /dev/kvm && exec "$0" "$@"' "$0" "$@""#;
    let words = ["userfaultfd", "unprivileged_userfaultfd=1"];
    bill_and_doctor_report(&["unshare", "-m", "sh", "-c", script], &words);
}

#[test]
fn missing_hugetlb_pages_are_reported_with_the_remedy() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let size = OsStr::new("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages");
    let free = fs::read_to_string(size).unwrap_or_default();
    if free.trim() != "0" && !free.is_empty() {
        skip!("hugetlb pages of 1G are free here");
    }
    let order = "bill demand --on live --memory hugetlb-1g --vcpus 1 --pages 262144 --runs 1";
    let order: Vec<&str> = order.split(' ').collect();
    let output = pagetoll(&order).output().unwrap();
    assert_ended(&output, 3, &["hugetlb"]);
    let doctor = pagetoll(&["doctor"]).output().unwrap();
    assert!(text(&doctor.stdout).contains("hugetlb pages of 1G"));
}
