//! Recordings of a live bill, by the commands that `read --how` prints, agree with the bill.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use pagetoll_live::host;
use pagetoll_test_support::skip;
use serde_json::Value;

use crate::{assert_refused, pagetoll, program};

const PAGES: u64 = 8192;
/// Between the time of a page in the bill and as recorded. On a busy machine the guest may be stopped between the pages that it
/// takes for itself and the first that is billed; 0.3 % were seen on an idle one.
const APART: f64 = 0.25;
/// From when perf was started until it surely records.
const STARTED: Duration = Duration::from_secs(3);

fn run(arguments: &[&str], folder: &Path) -> Output {
    let mut command = pagetoll(arguments);
    command.current_dir(folder).output().unwrap()
}

fn json(arguments: &[&str], folder: &Path) -> Value {
    let output = run(arguments, folder);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A command of a document, as a user's shell runs it.
fn shell(command: &str, folder: &Path) -> Command {
    let programs = program().parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let paths = [programs].into_iter().chain(env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", env::join_paths(paths).unwrap());
    shell
}

/// The commands that record KVM here, or why it cannot be recorded or billed.
fn recipe(folder: &Path) -> Result<Vec<String>, String> {
    let output = run(&["read", "--how", "kvm", "--format", "json"], folder);
    let recordings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let recording = &recordings[0];
    if let Some(lacks) = recording.get("lacks") {
        return Err(lacks.to_string());
    }
    host::check().map_err(|error| error.to_string())?;
    let commands = recording["commands"].as_array().unwrap().iter();
    Ok(commands
        .map(|command| command.as_str().unwrap().to_owned())
        .collect())
}

const BILL: &[&str] = &[
    "bill",
    "demand",
    "--on",
    "live",
    "--vcpus",
    "1",
    "--batch",
    "1",
    "--mechanism",
    "uffd",
    "--runs",
    "1",
    "--format",
    "json",
];

/// The party that mapped as many pages as the bill has: other tests run guests at the same time. Beside its pages a guest
/// touches its code and its page tables.
fn vcpu(observation: &Value) -> &Value {
    let parties = observation["parties"].as_array().unwrap();
    let of_bill = |party: &&Value| {
        let pages = party["unit"]["count"].as_u64();
        pages.is_some_and(|pages| (PAGES..=PAGES + PAGES / 100).contains(&pages))
    };
    let found = parties.iter().find(of_bill);
    found.unwrap_or_else(|| panic!("no party of {PAGES} pages: {parties:#?}"))
}

#[test]
fn a_live_bill_recorded_by_perf_has_the_bills_pages_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let commands = match recipe(folder) {
        Ok(commands) => commands,
        Err(why) => skip!("{why}"),
    };
    let [record, read] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let mut perf = shell(record, folder).spawn().unwrap();
    thread::sleep(STARTED);
    let pages = PAGES.to_string();
    let bill = json(&[BILL, &["--pages", &pages]].concat(), folder);
    assert!(
        perf.try_wait().unwrap().is_none(),
        "perf ended before the bill"
    );
    assert!(perf.wait().unwrap().success());

    let printed = shell(read, folder).output().unwrap();
    assert!(printed.status.success());
    let observed = json(&["read", "vm.data", "--format", "json"], folder);
    let vcpu = vcpu(&observed);
    let name = vcpu["name"].as_str().unwrap();
    // Of many vCPUs, where other tests run guests at the same time, the text has sums.
    if observed["parties"].as_array().unwrap().len() <= 16 {
        assert!(String::from_utf8_lossy(&printed.stdout).contains(name));
    }
    assert_eq!(observed["lost"], 0);

    let billed = bill["rows"][0]["cost_per_page"].as_f64().unwrap();
    let nanos = vcpu["nanos_per_unit"].as_f64().unwrap();
    assert!(
        (nanos / billed - 1.0).abs() < APART,
        "{nanos} ns, billed {billed}"
    );

    let script = shell("perf script --ns -i vm.data > vm.txt", folder)
        .status()
        .unwrap();
    assert!(script.success());
    let text = json(&["read", "vm.txt", "--format", "json"], folder);
    assert_eq!(text["parties"], observed["parties"]);
}

/// A program in place of trace-cmd, and a PATH that begins with its folder.
fn trace_cmd(folder: &Path, script: &str) -> OsString {
    let path = folder.join("trace-cmd");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let paths = env::var_os("PATH").unwrap_or_default();
    env::join_paths(
        [folder.to_owned()]
            .into_iter()
            .chain(env::split_paths(&paths)),
    )
    .unwrap()
}

/// Prints two pages mapped, where it is asked as it must be.
const PRINTS: &str = r#"[ "$1 $2 $3" = "report -t -i" ] && [ -f "$4" ] || exit 9
echo cpus=2
echo '   CPU-11  [001]  1315.415318000: kvm_mmu_set_spte:     gfn 400 spte 3a2320e67 (rwxu) level 1 at 4f32dc000'
echo '   CPU-11  [001]  1315.415320500: kvm_mmu_set_spte:     gfn 401 spte 3a2321e47 (rwxu) level 1 at 4f32dc008'"#;

#[test]
fn a_trace_dat_is_printed_by_trace_cmd_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.dat"), b"\x17\x08Dtracing6\0").unwrap();
    fs::write(folder.path().join("t.txt"), "hello\n").unwrap();
    let read = |arguments: &[&str], script: &str| {
        let mut command = pagetoll(arguments);
        let command = command.current_dir(folder.path());
        command
            .env("PATH", trace_cmd(folder.path(), script))
            .output()
            .unwrap()
    };
    for arguments in [
        ["read", "t.dat", "--trace-cmd", "--format=json"].as_slice(),
        &["read", "--why", "t.dat", "--trace-cmd", "--format=json"],
        &["advise", "t.dat", "--trace-cmd", "--format=json"],
    ] {
        let output = read(arguments, PRINTS);
        assert!(output.status.success(), "{arguments:?} {output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let format = printed
            .get("format")
            .or_else(|| printed.pointer("/capture/format"));
        assert_eq!(
            format.unwrap(),
            "trace.dat, by trace-cmd report: tracepoints as text"
        );
        assert!(printed.get("left_out").is_none(), "{printed}");
    }
    let with = ["read", "t.dat", "--trace-cmd"];
    assert_refused(
        &read(&["read", "t.dat"], PRINTS),
        2,
        &["a trace.dat of trace-cmd", "--trace-cmd"],
    );
    assert_refused(
        &read(&["read", "t.txt", "--trace-cmd"], PRINTS),
        2,
        &["t.txt is no trace.dat"],
    );
    assert_refused(
        &read(&with, "echo damaged >&2; exit 1"),
        2,
        &["t.dat", "exited with code 1", "damaged"],
    );
    assert_refused(
        &read(&with, "kill -SEGV $$"),
        2,
        &["t.dat", "trace-cmd report"],
    );
    assert_refused(
        &read(&with, "echo cpus=2"),
        2,
        &["t.dat: trace-cmd prints no event of it: it may be cut off"],
    );
    let mut without = pagetoll(&with);
    let without = without
        .current_dir(folder.path())
        .env("PATH", "/nonexistent");
    assert_refused(
        &without.output().unwrap(),
        3,
        &["trace-cmd is not installed"],
    );
}
