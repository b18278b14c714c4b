//! The program as its users run it, but for its end by signals: `signals` adopts orphans, and is a test program of its own.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod bisect;
mod browser;
mod cache;
mod command_line;
mod conformance;
mod demand;
mod diff;
mod dirty;
mod discard;
mod fix;
mod migrate;
mod options;
mod pin_model;
mod recorded;
mod report;
mod restore;
mod schema;
mod search;
mod simulator;
mod sweep;
mod this_host;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use pagetoll_test_support::skip;
use rustix::process::{Pid, Signal, kill_process};

/// Command that starts a program without CAP_SYS_PTRACE, which stands for the device of userfaultfds.
const WITHOUT_PTRACE: &str = "setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace";

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("pagetoll").to_path_buf()
}

/// The program with these arguments.
fn pagetoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments);
    command
}

/// Root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The bill that the program printed in JSON, whose form is documented.
fn printed_bill(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bill = serde_json::from_slice(&output.stdout).unwrap();
    let schema = include_str!("../../../../docs/bill-schema.json");
    let schema = jsonschema::draft202012::new(&serde_json::from_str(schema).unwrap()).unwrap();
    let errors: Vec<_> = schema.iter_errors(&bill).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    bill
}

/// Checks the exit code, and that stderr has each of these words.
fn assert_ended(output: &Output, code: i32, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in {stderr}");
    }
}

/// Checks that nothing was printed, the exit code, and that stderr has each of these words.
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    assert_ended(output, code, words);
    assert_eq!(text(&output.stdout), "");
}

/// Excludes other tests that take or count this host's large pages.
fn large_pages() -> MutexGuard<'static, ()> {
    static PAGES: Mutex<()> = Mutex::new(());
    PAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes of a hidden command that some bill has started.
fn processes_of(parent: u32, command: &str) -> Vec<u32> {
    let of_parent = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        let is_child = words.get(2).copied() == Some(parent.to_string().as_bytes());
        (words.get(1).copied() == Some(command.as_bytes()) && is_child).then_some(pid)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(of_parent).collect()
}

/// Output of the program where the device is hidden by another one, started by `exec`; why it cannot be hidden.
fn without_device(device: &str, exec: &str, arguments: &[&str]) -> Result<Output, String> {
    let script = format!("mount --bind /dev/null {device} && exec {exec} \"$0\" \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).arg(program());
    let output = command.args(arguments).output().unwrap();
    let said = text(&output.stderr);
    match said.contains("mount") || said.contains("unshare") {
        true => Err(said),
        false => Ok(output),
    }
}

/// Checks that an order of a live bill names the device where there is no KVM.
fn assert_kvm_is_named(order: &[&str]) {
    match without_device("/dev/kvm", "", order) {
        Ok(output) => assert_ended(&output, 3, &["/dev/kvm"]),
        Err(reason) => skip!("{reason}"),
    }
}

/// Ends a bill by a signal, milliseconds after it has begun, which its process id says; that id.
fn end_bill(
    mut bill: std::process::Command,
    signal: Signal,
    delay: u64,
    has_begun: impl Fn(u32) -> bool,
) -> u32 {
    bill.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = bill.spawn().unwrap();
    let id = child.id();
    eventually("the bill begins", || has_begun(id));
    thread::sleep(Duration::from_millis(delay));
    let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    assert!(!child.wait().unwrap().success());
    id
}

/// Waits until another process has done something; panics after a minute.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
