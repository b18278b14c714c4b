//! Bills of demand paging on this host as their users see them; skipped with the reason where there is no KVM.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::{assert_refused, large_pages, printed_bill, program};

fn demand(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bill", "demand"]).args(arguments);
    command
}

fn refused(arguments: &[&str], words: &[&str]) {
    assert_refused(&demand(arguments).output().unwrap(), 2, words);
}

#[test]
fn a_small_bill_has_a_row_for_every_mechanism_and_its_form_is_documented() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = [
        "--vcpus", "1,2", "--pages", "256", "--batch", "1,16", "--runs", "2", "--format", "json",
    ];
    let bill = printed_bill(&demand(&order).output().unwrap());
    let rows = bill["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 + 2 + 3 * 4);
    for row in rows.iter().filter(|row| row["unavailable"].is_null()) {
        assert_eq!(row["runs"].as_array().unwrap().len(), 2);
        assert!(row["pages_per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn bad_orders_are_rejected() {
    refused(&["--vcpus", "0"], &["--vcpus 0", "1 to 64"]);
    refused(&["--vcpus", "x"], &["--vcpus", "'x'"]);
    refused(&["--readers", "65"], &["--readers 65", "1 to 64"]);
    refused(&["--batch", "1,24"], &["--batch 24", "power of two"]);
    refused(&["--batch", "1024"], &["--batch 1024", "1 to 512"]);
    refused(
        &["--faults", "minor"],
        &["--faults minor", "--memory shmem"],
    );
    refused(
        &["--memory", "hugetlb-2m", "--pages", "100"],
        &["--pages 100", "multiple of 512"],
    );
    refused(&["--memory", "paper"], &["'paper'", "anonymous"]);
    refused(&["--ring", "1"], &["'1'", "--ring"]);
    refused(&["--mechanism", "exits"], &["'exits'", "exit-gmem"]);
}

/// Every count of reserved hugetlb pages, and what lies in shared memory.
fn what_could_be_left() -> Vec<String> {
    let mut left = Vec::new();
    for size in fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten()
        .flatten()
    {
        for file in ["nr_hugepages", "resv_hugepages", "nr_overcommit_hugepages"] {
            let count = fs::read_to_string(size.path().join(file)).unwrap_or_default();
            left.push(format!("{}/{file} {}", size.path().display(), count.trim()));
        }
    }
    let shared = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    left.extend(
        shared
            .map(|file| file.path().display().to_string())
            .filter(|path| path.contains("pagetoll")),
    );
    left.sort();
    left
}

/// A bill that takes long enough to be disturbed.
fn ended_by(signal: Signal) -> Option<i32> {
    let order = [
        "--mechanism",
        "uffd,exit",
        "--batch",
        "1",
        "--vcpus",
        "2",
        "--runs",
        "100",
    ];
    let mut child = demand(&order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(700));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{signal:?} did not end it");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_end_a_bill_and_leave_nothing() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let _alone = large_pages();
    let before = what_could_be_left();
    for (signal, code) in [
        (Signal::INT, Some(130)),
        (Signal::TERM, Some(143)),
        (Signal::KILL, None),
    ] {
        assert_eq!(ended_by(signal), code, "{signal:?}");
        assert_eq!(what_could_be_left(), before, "{signal:?}");
    }
}
