//! Bills of discards on this host as their users see them; skipped with the reason where there is no KVM.

use std::fs;
use std::path::Path;
use std::process::Command;

use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::Signal;
use serde_json::Value;

use crate::{assert_ended, assert_kvm_is_named, assert_refused, end_bill, printed_bill, program};

/// A guest of 8 MiB, once.
const SMALL: [&str; 4] = ["--pages", "2048", "--runs", "1"];

fn discard(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bill", "discard"]).args(arguments);
    command
}

fn small_bill(arguments: &[&str]) -> Value {
    let mut command = discard(&SMALL);
    command.args(arguments).args(["--format", "json"]);
    printed_bill(&command.output().unwrap())
}

/// The row of the calls of a line.
fn row<'b>(bill: &'b Value, backing: &str, call: &str, batch: u64) -> &'b Value {
    let mut rows = bill["rows"].as_array().unwrap().iter();
    let found = rows.find(|row| {
        row["operation"] == "discard"
            && row["backing"] == backing
            && row["mechanism"] == call
            && row["batch"] == batch
    });
    found.unwrap_or_else(|| panic!("{backing}, {call}, {batch}"))
}

fn assert_checked(bill: &Value) {
    let rows = bill["rows"].as_array().unwrap().iter();
    let checks: Vec<&Value> = rows
        .flat_map(|row| row["checks"].as_array().unwrap())
        .collect();
    assert!(!checks.is_empty());
    for check in checks {
        assert_eq!(check["verdict"], "pass", "{check:#}");
        assert!(check["control_failed"].as_u64() > Some(0), "{check:#}");
    }
}

#[test]
fn what_is_free_is_said_of_every_call_on_every_backing() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let bill = small_bill(&[]);
    assert_checked(&bill);
    assert_eq!(bill["rows"].as_array().unwrap().len(), 6 * 5 * 3 * 3);
    let of = |backing, call, batch| {
        let figures = &row(&bill, backing, call, batch)["discarded"];
        let word = |name: &str| figures[name].as_str().unwrap_or_default().to_owned();
        (word("frees"), word("found"), word("cleared"))
    };
    let words = |frees: &str, found: &str, cleared: &str| {
        (frees.to_owned(), found.to_owned(), cleared.to_owned())
    };
    for batch in [1, 16, 512] {
        let all = words("all", "zeroes", "touch");
        assert_eq!(of("anonymous", "madv-dontneed", batch), all);
        assert_eq!(of("anonymous", "map-fixed", batch), all);
        assert_eq!(of("memfd", "punch-hole", batch), all);
        assert_eq!(of("memfd", "madv-remove", batch), all);
        let nothing = words("nothing", "old", "never");
        assert_eq!(of("memfd", "madv-dontneed", batch), nothing);
        assert_eq!(of("memfd", "map-fixed", batch).0, "nothing");
        let file = words("all", "file", "never");
        assert_eq!(of("private-file", "madv-dontneed", batch), file);
        let kept = &row(&bill, "private-file", "madv-dontneed", batch)["discarded"];
        assert_eq!(kept["page_cache"], 1.0);
        let rss = &row(&bill, "memfd", "madv-dontneed", batch)["discarded"]["rss"];
        assert!(rss.as_f64() > Some(0.95), "RSS falls all the same: {rss}");
    }
    assert_eq!(of("anonymous", "madv-free", 512).0, "later");
}

#[test]
fn what_single_calls_take_beside_is_counted_in_pages() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let bill = small_bill(&["--backing", "anonymous"]);
    let of =
        |call, batch, name: &str| row(&bill, "anonymous", call, batch)["discarded"][name].as_f64();
    if of("madv-dontneed", 1, "taken_per_call").is_none() {
        skip!("KVM does not count the pages of stage 2 here");
    }
    for batch in [1, 16, 512_u64] {
        assert_eq!(
            of("madv-dontneed", batch, "taken_per_call"),
            Some(batch as f64)
        );
        assert_eq!(of("madv-dontneed", batch, "beside_per_call"), Some(0.0));
        assert_eq!(
            of("madv-dontneed", batch, "faults_beside_per_call"),
            Some(0.0)
        );
    }
    // A whole block cannot take more; what a part of one takes is the kernel's choice.
    assert_eq!(of("map-fixed", 512, "beside_per_call"), Some(0.0));
    let beside = of("map-fixed", 1, "beside_per_call");
    assert!(beside >= Some(0.0) && beside <= Some(511.0), "{beside:?}");
    let faults = of("map-fixed", 1, "faults_beside_per_call");
    assert_eq!(
        beside > Some(0.0),
        faults > Some(0.0),
        "{beside:?}, {faults:?}"
    );
}

#[test]
fn a_call_that_memory_does_not_take_is_a_row_with_its_errno() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let bill = small_bill(&["--batch", "1"]);
    let why = |backing, call| {
        let why = row(&bill, backing, call, 1)["unavailable"].as_str();
        why.unwrap_or_else(|| panic!("{backing}, {call}"))
    };
    assert!(why("memfd", "madv-free").contains("EINVAL"));
    assert!(why("anonymous", "madv-remove").contains("EINVAL"));
    assert!(why("private-file", "madv-remove").contains("EACCES"));
    assert!(why("private-file", "punch-hole").contains("EBADF"));
    assert!(why("anonymous", "punch-hole").contains("anonymous memory has none"));
}

#[test]
fn hugetlb_pages_that_are_not_free_are_named() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let free = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|free| free.trim() != "0") {
        skip!("hugetlb pages are free");
    }
    let order = ["--backing", "hugetlb-2m"];
    let output = discard(&SMALL).args(order).output().unwrap();
    assert_ended(&output, 3, &["hugetlb"]);
    assert!(output.stdout.is_empty());
}

#[test]
fn bad_orders_are_rejected() {
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_refused(&discard(arguments).output().unwrap(), 2, words);
    };
    refused(&["--pages", "2047"], &["--pages 2047", "2048"]);
    refused(&["--batch", "3"], &["--batch 3", "a power of two"]);
    refused(&["--backing", "ksm"], &["'ksm'", "memfd", "guest-memfd"]);
    refused(&["--mechanism", "munmap"], &["'munmap'", "map-fixed"]);
    refused(&["--vcpus", "2"], &["--vcpus", "discard"]);
    refused(
        &["--on", "lab", "--pages", "512"],
        &["--pages 512", "a multiple of 1024"],
    );
    refused(
        &["--on", "lab", "--batch", "3"],
        &["--batch 3", "a power of two"],
    );
    refused(&["--on", "sim"], &["--on sim", "by real kernels alone"]);
}

#[test]
fn without_rights_the_device_is_named() {
    assert_kvm_is_named(&[&["bill", "discard"], SMALL.as_slice()].concat());
}

#[test]
fn nothing_is_left_of_a_bill_that_is_killed_or_interrupted() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let images = || -> Vec<_> {
        let files = fs::read_dir("/var/tmp").unwrap().flatten();
        let paths = files.map(|file| file.path());
        let is_image = |path: &Path| path.to_string_lossy().contains("pagetoll-image");
        paths.filter(|path| is_image(path)).collect()
    };
    let before = images();
    for (signal, delay) in [
        (Signal::KILL, 100),
        (Signal::KILL, 350),
        (Signal::INT, 200),
        (Signal::TERM, 600),
    ] {
        end_bill(discard(&["--runs", "100"]), signal, delay, |_| true);
    }
    assert_eq!(images(), before);
}
