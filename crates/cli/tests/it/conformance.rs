//! `pagetoll conformance`, end to end.

use assert_cmd::Command;
use pagetoll_test_support::{skip, skipped_test};

use crate::{large_pages, pagetoll};

fn conformance(arguments: &[&str]) -> Command {
    let mut command = pagetoll(&["conformance"]);
    command.args(arguments);
    command
}

#[test]
fn the_simulated_xen_answers_as_was_recorded() {
    let assert = conformance(&["--on", "sim"]).assert().success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let title = text.lines().next().unwrap();
    let words: Vec<&str> = title.split(' ').collect();
    assert_eq!(words[1], words[3], "{title}");
    assert!(!text.contains("Differences"), "{text}");
}

#[test]
fn json_has_every_step() {
    let assert = conformance(&["--on", "sim", "--case", "pin-twice", "--format", "json"])
        .assert()
        .success();
    let json: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(json["equal"], 2);
    assert_eq!(json["cases"][0]["steps"][2]["sim"], "EINVAL done 0");
    assert_eq!(json["cases"][0]["steps"][2]["real"], "EINVAL done 0");
}

#[test]
fn an_unknown_case_is_bad_usage() {
    let assert = conformance(&["--on", "sim", "--case", "nonsense"])
        .assert()
        .code(2);
    let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(stderr.contains("--case nonsense: no such case"), "{stderr}");
}

#[test]
fn the_model_of_kvm_answers_as_was_recorded() {
    let assert = conformance(&["--suite", "kvm", "--on", "sim"])
        .assert()
        .success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    assert!(!text.contains("Differences"), "{text}");
}

#[test]
fn this_host_answers_as_the_model_of_kvm() {
    let _alone = large_pages();
    let output = conformance(&["--suite", "kvm", "--format", "json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        skip!("{stderr}");
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = json["cases"].as_array().unwrap();
    for case in cases.iter().filter(|case| case["skipped"].is_string()) {
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        skipped_test(text("case"), text("skipped"));
    }
    let (equal, skipped) = (json["equal"].as_u64(), json["skipped"].as_u64());
    assert!(equal > Some(100), "{equal:?}");
    assert_eq!(
        equal.zip(skipped).map(|(a, b)| a + b),
        u64::try_from(cases.len()).ok()
    );
}

#[test]
fn a_case_whose_feature_was_not_recorded_is_skipped_with_the_reason() {
    let flag = [
        "--suite",
        "kvm",
        "--on",
        "sim",
        "--case",
        "exit-on-missing-zeroes",
    ];
    let assert = conformance(&flag).assert().code(3);
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    assert!(
        text.contains("lacks a feature that the case needs: exit-on-missing-zeroes"),
        "{text}"
    );
}

#[test]
fn a_suite_is_not_asked_where_it_cannot_be() {
    for (suite, on, instead) in [("xen", "live", "lab"), ("vfio", "live", "lab")] {
        let assert = conformance(&["--suite", suite, "--on", on])
            .assert()
            .code(2);
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(&format!("by --on {instead}")), "{stderr}");
    }
}

#[test]
fn a_processor_is_chosen_where_the_lab_boots_one() {
    for (arguments, problem) in [
        (
            "--arch arm64",
            "--arch arm64: expected it with --suite vfio or --suite kvm",
        ),
        (
            "--suite kvm --on live --arch x86-64",
            "--on live is this host",
        ),
        (
            "--suite kvm --on lab --arch arm64",
            "--on lab: answers were recorded on x86-64",
        ),
        (
            "--suite kvm --kernel debian",
            "--kernel: expected it with --arch or --on lab",
        ),
    ] {
        let words: Vec<_> = arguments.split(' ').collect();
        let assert = conformance(&words).assert().code(2);
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(problem), "{arguments}: {stderr}");
    }
}

/// The loop as it was first posted takes a batch for one run of pages.
#[test]
fn the_mechanism_that_gets_two_half_large_pages_wrong_is_named() {
    let assert = conformance(&["--suite", "vfio", "--on", "sim"])
        .assert()
        .success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let wrong = "Mechanisms that get a case wrong\n  per-batch: two-half-large-pages\n";
    assert!(text.contains(wrong), "{text}");
}
