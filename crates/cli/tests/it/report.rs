//! `pagetoll report` of several bills: the axis, steps, folders, and what is refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::pagetoll;

const SAMPLE: &str = include_str!("../../../render/tests/data/sample-bill.json");

fn report(folder: &Path, arguments: &[&str]) -> Output {
    let mut report = pagetoll(&["report"]);
    report.args(arguments).current_dir(folder).output().unwrap()
}

fn scale(figure: Option<&mut Value>, times: f64) {
    if let Some((figure, value)) = figure.and_then(|figure| Some((figure.as_f64()?, figure))) {
        *value = (figure * times).into();
    }
}

/// The sample on a kernel that costs so many times as much.
fn bill(kernel: &str, times: f64) -> String {
    let mut bill: Value = serde_json::from_str(SAMPLE).unwrap();
    bill["stack"]["linux"] = kernel.into();
    for row in bill["rows"].as_array_mut().unwrap() {
        for figure in ["cost_per_page", "stddev"] {
            scale(row.get_mut(figure), times);
        }
        for run in row
            .get_mut("runs")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            scale(Some(run), times);
        }
        for toll in row
            .get_mut("tolls")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            scale(toll.get_mut("cost_each"), times);
        }
    }
    bill.to_string()
}

fn three_kernels() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, kernel, times) in [("a", "6.2", 1.0), ("b", "6.12", 1.0), ("c", "7.3", 1.5)] {
        let path = folder.path().join(name).with_extension("json");
        fs::write(path, bill(kernel, times)).unwrap();
    }
    folder
}

#[test]
fn bills_of_three_kernels_are_curves_with_the_step_between_two() {
    let folder = three_kernels();
    let output = report(
        folder.path(),
        &["c.json", "a.json", "b.json", "--format", "json"],
    );
    let curves: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(curves["axis"], "kernel");
    let points = curves["charts"][0]["curves"][0]["points"]
        .as_array()
        .unwrap();
    let steps: Vec<_> = points
        .iter()
        .map(|point| (&point["at"]["name"], point["step"].is_object()))
        .collect();
    assert_eq!(steps.len(), 3);
    let expected = [("6.2", false), ("6.12", false), ("7.3", true)];
    for ((name, steps), (expected, is_step)) in steps.into_iter().zip(expected) {
        assert_eq!((name.as_str(), steps), (Some(expected), is_step));
    }
    let text = report(folder.path(), &["."]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("unmap over kernels: 3 bills"), "{text}");
    assert!(text.contains("+50.0 %"), "{text}");
}

#[test]
fn what_is_no_bill_in_a_folder_is_named_and_left_out() {
    let folder = three_kernels();
    fs::write(folder.path().join("torn.json"), &SAMPLE[..200]).unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let output = report(folder.path(), &["."]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("left out: ./torn.json: line"), "{said}");
    assert!(!said.contains("notes.txt"));
    // A file that is named has to be one.
    let output = report(folder.path(), &["a.json", "torn.json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_link_in_a_folder_is_named_and_left_out_and_one_that_is_named_is_followed() {
    let folder = three_kernels();
    let elsewhere = tempfile::tempdir().unwrap();
    let private = elsewhere.path().join("private.json");
    fs::write(&private, bill("5.10", 3.0)).unwrap();
    symlink(&private, folder.path().join("d.json")).unwrap();
    symlink(elsewhere.path(), folder.path().join("e")).unwrap();
    let output = report(folder.path(), &[".", "--format", "json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "left out: ./d.json: is a symbolic link; expected a regular file";
    assert!(said.contains(expected), "{said}");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("5.10"));
    let output = report(folder.path(), &["a.json", "d.json", "--format", "json"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("5.10"));
}

#[test]
fn what_does_not_apply_is_refused() {
    let folder = three_kernels();
    for (arguments, expected) in [
        (
            &["a.json", "a.json"][..],
            "do not differ in any of kernel, xen, vcpus",
        ),
        (
            &["a.json", "--tolerance", "1"],
            "--tolerance: a.json is one bill",
        ),
        (
            &["a.json", "b.json", "--over", "vcpus"],
            "--over vcpus: no row of the bills",
        ),
        (
            &["a.json", "b.json", "--format", "csv"],
            "a curve cannot be written as csv",
        ),
    ] {
        let output = report(folder.path(), arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
