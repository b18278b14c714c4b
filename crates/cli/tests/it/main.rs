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
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;

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

/// Waits until another process has done something; panics after a minute.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
