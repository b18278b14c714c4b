//! `pagetoll conformance`, end to end.

use assert_cmd::Command;

fn pagetoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagetoll"));
    command.arg("conformance").args(arguments);
    command
}

#[test]
fn the_simulated_xen_answers_as_was_recorded() {
    let assert = pagetoll(&["--on", "sim"]).assert().success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let title = text.lines().next().unwrap();
    let words: Vec<&str> = title.split(' ').collect();
    assert_eq!(words[1], words[3], "{title}");
    assert!(!text.contains("Differences"), "{text}");
}

#[test]
fn json_has_every_step() {
    let assert = pagetoll(&["--on", "sim", "--case", "pin-twice", "--format", "json"])
        .assert()
        .success();
    let json: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(json["equal"], 2);
    assert_eq!(json["cases"][0]["steps"][2]["sim"], "EINVAL done 0");
    assert_eq!(json["cases"][0]["steps"][2]["real"], "EINVAL done 0");
}

#[test]
fn a_case_that_nobody_has_is_bad_usage() {
    let assert = pagetoll(&["--on", "sim", "--case", "nonsense"])
        .assert()
        .code(2);
    let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        stderr.contains("--case nonsense: no case is called so"),
        "{stderr}"
    );
}
