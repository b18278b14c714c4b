//! Bills of dirty tracking on this host as their users see them; skipped with the reason where there is no KVM.

use std::fs;
use std::process::Command;

use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    WITHOUT_PTRACE, assert_ended, assert_refused, end_bill, eventually, large_pages, printed_bill,
    program, text, without_device,
};

fn dirty(order: &str) -> Command {
    let mut command = Command::new(program());
    command.args(["bill", "dirty"]).args(order.split(' '));
    command
}

fn bill(order: &str) -> Value {
    let mut command = dirty(order);
    printed_bill(&command.args(["--format", "json"]).output().unwrap())
}

fn row<'b>(bill: &'b Value, mechanism: &str, operation: &str) -> &'b Value {
    let mut rows = bill["rows"].as_array().unwrap().iter();
    let row = rows.find(|row| row["mechanism"] == mechanism && row["operation"] == operation);
    row.unwrap_or_else(|| panic!("{mechanism}, {operation}"))
}

fn coverage(bill: &Value, mechanism: &str, event: &str) -> String {
    let events = &row(bill, mechanism, "harvest")["tracked"]["events"];
    let mut events = events.as_array().unwrap().iter();
    let found = events.find(|tried| tried["event"] == event);
    found.unwrap()["coverage"].as_str().unwrap().to_owned()
}

/// No page was lost of those that were tried, and the controls lost some.
fn assert_nothing_lost(bill: &Value) {
    let mut checked = 0;
    for row in bill["rows"].as_array().unwrap() {
        for check in row["checks"].as_array().unwrap() {
            assert_eq!(check["failed"], 0, "{row:#}");
            assert!(check["tried"].as_u64() > Some(0), "{row:#}");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// At least so many spans, and no more than a bill keeps, each after the one before.
fn assert_in_order(spans: &Value, least: usize) {
    let spans = spans.as_array().unwrap();
    assert!((least..=64).contains(&spans.len()), "{spans:?}");
    let span = |span: &Value| {
        (
            span["start"].as_f64().unwrap(),
            span["nanoseconds"].as_f64().unwrap(),
        )
    };
    let spans: Vec<_> = spans.iter().map(span).collect();
    assert!(spans.iter().all(|(_, time)| *time > 0.0), "{spans:?}");
    let follows = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0;
    assert!(spans.windows(2).all(follows), "{spans:?}");
}

#[test]
fn a_guest_in_ring_0_loses_nothing_and_its_rows_say_so() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = "--mechanism bitmap --folio 4K --pages 512 --runs 1 --ring 0";
    let bill = bill(order);
    assert_nothing_lost(&bill);
    let rows = bill["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["ring"] == 0));
    assert!(bill["notes"].to_string().contains("in ring 0"));
}

#[test]
fn no_written_page_is_lost_and_what_a_mechanism_does_not_cover_is_found() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    // A round of 4096 pages takes several times as long as an empty entry, which is no part of its time.
    let order =
        "--mechanism bitmap,manual-protect,wp-async,mincore --folio 4K --pages 4096 --runs 1";
    let bill = bill(order);
    assert_nothing_lost(&bill);
    assert_eq!(bill["rows"].as_array().unwrap().len(), 4 * 12);
    for mechanism in ["bitmap", "manual-protect"] {
        let rewriting = &row(&bill, mechanism, "rewrite-tracked")["rewriting"];
        assert_in_order(&rewriting["rounds"], 4);
        assert_in_order(&rewriting["harvests"], 1);
    }
    assert!(row(&bill, "bitmap", "harvest")["rewriting"].is_null());
    for mechanism in ["bitmap", "manual-protect"] {
        let tracked = &row(&bill, mechanism, "harvest")["tracked"];
        assert_eq!(tracked["reported"], tracked["written"], "{mechanism}");
    }
    let covered = |mechanism, event| coverage(&bill, mechanism, event);
    for mechanism in ["bitmap", "manual-protect"] {
        assert_eq!(covered(mechanism, "vmm-write"), "not-covered");
        assert_eq!(covered(mechanism, "discarded"), "not-covered");
        assert_eq!(covered(mechanism, "discarded-and-written"), "covered");
        assert_eq!(covered(mechanism, "forked"), "covered");
        let checks = row(&bill, mechanism, "harvest")["checks"]
            .as_array()
            .unwrap();
        assert!(
            checks
                .iter()
                .all(|check| check["control_failed"].as_u64() > Some(0))
        );
    }
    assert_eq!(covered("mincore", "vmm-write"), "covered");
    assert_eq!(covered("bitmap", "device-write"), "untested");
    let why = |mechanism, operation| row(&bill, mechanism, operation)["unavailable"].clone();
    assert!(
        why("bitmap", "re-arm")
            .as_str()
            .unwrap()
            .contains("KVM_GET_DIRTY_LOG")
    );
    assert!(
        why("mincore", "write-again")
            .as_str()
            .unwrap()
            .contains("stays reported")
    );
    if row(&bill, "wp-async", "arm")["unavailable"].is_null() {
        assert_eq!(covered("wp-async", "vmm-write"), "covered");
        assert!(
            why("wp-async", "re-arm")
                .as_str()
                .unwrap()
                .contains("PM_SCAN_WP_MATCHING")
        );
    }
}

#[test]
fn a_handler_and_a_ring_lose_nothing_and_count_their_crossings() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = "--mechanism uffd-wp,ring,bitmap --folio THP --pages 4608 --runs 1";
    let bill = bill(order);
    assert_nothing_lost(&bill);
    let crossings = |mechanism, kind: &str| {
        let row = row(&bill, mechanism, "first-write");
        let is_here = row["unavailable"].is_null();
        is_here.then(|| row["crossings"][kind].as_f64().unwrap())
    };
    // The ring has 4096 entries.
    if let Some(full) = crossings("ring", "ring-full") {
        assert!(full > 0.0);
    }
    if let Some(messages) = crossings("uffd-wp", "uffd-message") {
        assert!(messages > 0.0);
        assert_eq!(coverage(&bill, "uffd-wp", "vmm-write"), "covered");
    }
}

#[test]
fn the_first_line_of_a_report_is_what_is_lost() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let order = "--mechanism bitmap --folio 4K --pages 512 --runs 1";
    let output = dirty(order).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    let fact = report
        .lines()
        .filter(|line| !line.is_empty())
        .nth(1)
        .unwrap();
    assert!(fact.trim().starts_with("lost  0 of "), "{report}");
}

#[test]
fn orders_that_no_host_can_track_are_refused() {
    let refused = |order: &str, words: &[&str]| {
        assert_refused(&dirty(order).output().unwrap(), 2, words);
    };
    refused("--pages 1000", &["--pages 1000", "multiple of 512"]);
    refused("--folio 1G", &["--folio 1G", "4K, THP or 2M"]);
    refused("--on live --mechanism rwp", &["'rwp'", "on live"]);
    refused("--mechanism rings", &["'rings'", "did you mean 'ring'"]);
    refused("--batch 8", &["--batch", "dirty"]);
    refused("--on sim", &["--on sim", "real kernels"]);
}

#[test]
fn hugetlb_pages_that_are_not_free_are_named() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let _alone = large_pages();
    // 4 GiB.
    let order = "--folio 2M --mechanism bitmap --pages 1048576";
    let free = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let free: u64 = free
        .ok()
        .and_then(|free| free.trim().parse().ok())
        .unwrap_or(0);
    if free >= 2048 {
        skip!("4 GiB of hugetlb pages are free");
    }
    let output = dirty(order).output().unwrap();
    assert_ended(
        &output,
        3,
        &["hugetlb pages of 2 MiB", "--folio 2M", "nr_hugepages"],
    );
}

/// Processes whose parent is this one.
fn children_of(parent: u32) -> usize {
    let is_child = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields = stat.rsplit_once(')')?.1;
        let found: u32 = fields.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (found == parent).then_some(())
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(is_child)
        .count()
}

#[test]
fn nothing_is_left_of_a_bill_that_is_killed_or_interrupted() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    for (signal, delay) in [(Signal::KILL, 300), (Signal::KILL, 900), (Signal::INT, 500)] {
        let order = "--runs 100 --folio 4K";
        let id = end_bill(dirty(order), signal, delay, |_| true);
        eventually("no child outlives the bill", || children_of(id) == 0);
    }
}

#[test]
fn without_a_userfaultfd_the_mechanisms_of_kvm_are_billed() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    if !rustix::process::geteuid().is_root() {
        skip!("only the superuser hides /dev/userfaultfd and gives up its capabilities");
    }
    if fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .is_ok_and(|all| all.trim() == "1")
    {
        skip!("vm.unprivileged_userfaultfd allows it to all");
    }
    let order = "bill dirty --mechanism bitmap,uffd-wp,wp-async --folio 4K --pages 512 --runs 1 --format json";
    let order: Vec<_> = order.split(' ').collect();
    let bill = match without_device("/dev/userfaultfd", WITHOUT_PTRACE, &order) {
        Ok(output) => printed_bill(&output),
        Err(reason) => skip!("{reason}"),
    };
    assert!(row(&bill, "bitmap", "arm")["unavailable"].is_null());
    for mechanism in ["uffd-wp", "wp-async"] {
        let why = row(&bill, mechanism, "arm")["unavailable"]
            .as_str()
            .unwrap();
        assert!(why.contains("userfaultfd"), "{why}");
    }
}
