//! Bills of migrations on this host as their users see them; skipped with the reason where there is no KVM.

use std::process::Command;

use pagetoll_live::host;
use pagetoll_test_support::skip;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    assert_kvm_is_named, assert_refused, end_bill, eventually, printed_bill, processes_of, program,
};

/// A guest of 4 MiB, once.
const SMALL: [&str; 4] = ["--pages", "1024", "--runs", "1"];

fn migrate(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bill", "migrate"]).args(arguments);
    command
}

fn row<'b>(bill: &'b Value, operation: &str, mechanism: &str) -> &'b Value {
    let mut rows = bill["rows"].as_array().unwrap().iter();
    let found = rows.find(|row| row["operation"] == operation && row["mechanism"] == mechanism);
    found.unwrap_or_else(|| panic!("{operation}, {mechanism}"))
}

#[test]
fn each_mechanism_moves_every_word_and_a_changed_bit_is_found() {
    if let Err(reason) = host::check() {
        skip!("{reason}");
    }
    let mut command = migrate(&SMALL);
    let bill = printed_bill(&command.args(["--format", "json"]).output().unwrap());
    let rows = bill["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 11 * 3);
    let with_figures = rows.iter().filter(|row| row["unavailable"].is_null());
    let whole: Vec<&Value> = with_figures
        .filter(|row| row["operation"] == "migration")
        .collect();
    assert!(whole.len() >= 5, "{}", whole.len());
    for row in &whole {
        let check = &row["checks"][0];
        assert_eq!(check["name"], "content-at-destination");
        assert_eq!(check["verdict"], "pass", "{check:#}");
        assert_eq!(check["tried"], 1024);
        assert_eq!(check["control_failed"], 1, "one bit of one page");
        let sent = &row["migrated"]["sent"];
        let pages = sent["pages"].as_f64().unwrap();
        assert!(pages >= 1024.0, "{sent:#}");
        let rounds = sent["rounds"].as_array().unwrap().iter();
        let of_rounds: u64 = rounds.map(|round| round["pages"].as_u64().unwrap()).sum();
        assert_eq!(of_rounds as f64, pages, "a single run");
    }
    let time = |operation, mechanism| {
        let time = &row(&bill, operation, mechanism)["migrated"]["median"];
        time.as_f64().unwrap()
    };
    let stopped = time("downtime", "stop-copy");
    assert!(stopped <= time("migration", "stop-copy"));
    assert!(stopped <= time("stall", "stop-copy"));
    let sent = &row(&bill, "migration", "stop-copy")["migrated"]["sent"];
    assert_eq!(
        (&sent["pages"], &sent["again"]),
        (&1024.0.into(), &0.0.into())
    );
    assert_eq!(sent["composed"], 1024.0);
}

#[test]
fn a_guest_that_writes_nothing_is_sent_once() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    let order = ["--dirty-rate", "0", "--mechanism", "precopy-bitmap"];
    let mut command = migrate(&SMALL);
    command.args(order).args(["--format", "json"]);
    let bill = printed_bill(&command.output().unwrap());
    let sent = &row(&bill, "migration", "precopy-bitmap")["migrated"]["sent"];
    assert_eq!(
        (&sent["pages"], &sent["again"]),
        (&1024.0.into(), &0.0.into())
    );
    assert_eq!(sent["composed"], 1024.0);
}

#[test]
fn bad_orders_are_rejected() {
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_refused(&migrate(arguments).output().unwrap(), 2, words);
    };
    refused(&["--bandwidth", "0"], &["--bandwidth 0", "expected 1 to"]);
    refused(
        &["--set", "20000"],
        &["--set 20000", "16384, the pages of the guest"],
    );
    refused(
        &["--downtime-limit", "0"],
        &["--downtime-limit 0", "expected 1 to"],
    );
    refused(&["--mechanism", "precopy"], &["'precopy'", "precopy-ring"]);
    refused(&["--vcpus", "2"], &["--vcpus", "migrate"]);
    refused(&["--on", "lab"], &["--on lab", "on this host alone"]);
    refused(&["--on", "sim"], &["--on sim", "on this host alone"]);
}

#[test]
fn without_rights_the_device_is_named() {
    assert_kvm_is_named(&[&["bill", "migrate"], SMALL.as_slice()].concat());
}

#[test]
fn no_destination_is_left_of_a_bill_that_is_killed_or_interrupted() {
    if let Err(reason) = host::check_kvm() {
        skip!("{reason}");
    }
    for (signal, delay) in [
        (Signal::KILL, 0),
        (Signal::KILL, 60),
        (Signal::INT, 30),
        (Signal::TERM, 90),
    ] {
        // Without a tracker or a pager nothing but a guest's pages is billed before.
        let order = ["--mechanism", "stop-copy", "--runs", "100"];
        let id = end_bill(migrate(&order), signal, delay, |id| {
            !processes_of(id, "migrate-destination").is_empty()
        });
        eventually("the end of the destination", || {
            processes_of(id, "migrate-destination").is_empty()
        });
    }
}
