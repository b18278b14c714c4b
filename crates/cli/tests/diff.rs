//! Bills that cannot be compared: refused with what was expected, by exit code 2.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};

/// A bill of VFIO that the lab counted.
fn counted() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pin-held-out.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn write(folder: &Path, name: &str, bill: &Value) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, serde_json::to_vec(bill).unwrap()).unwrap();
    path
}

/// What comes of comparing the bill with one that was changed: exit code, and all that was said.
fn against(change: impl FnOnce(&mut Value)) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let old = write(folder.path(), "old.json", &counted());
    let mut bill = counted();
    change(&mut bill);
    let new = write(folder.path(), "new.json", &bill);
    let mut command = Command::cargo_bin("pagetoll").unwrap();
    let output = command.arg("diff").arg(old).arg(new).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    (output.status.code().unwrap(), told)
}

fn refused(change: impl FnOnce(&mut Value), parts: &[&str]) {
    let (code, told) = against(change);
    assert_eq!(code, 2, "{told}");
    for part in parts {
        assert!(told.contains(part), "{part} not in {told}");
    }
}

#[test]
fn a_bill_is_the_same_as_itself_and_a_dearer_one_is_told() {
    assert_eq!(against(|_| ()).0, 0);
    let dearer = |bill: &mut Value| {
        for row in bill["rows"].as_array_mut().unwrap() {
            let cost = row["cost_per_page"].as_f64().unwrap();
            row["cost_per_page"] = json!(cost * 1.02);
        }
    };
    let (code, told) = against(dearer);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("+2.0 %"), "{told}");
}

#[test]
fn another_version_of_the_form_is_refused_before_anything_else_is_said_of_it() {
    refused(
        |bill| *bill = json!({"schema": "pagetoll.bill/9", "rows": "as that version has them"}),
        &[
            "new.json",
            "pagetoll.bill/9",
            "expected a bill of schema pagetoll.bill/1",
        ],
    );
}

#[test]
fn another_route_is_refused() {
    refused(
        |bill| bill["route"] = json!("unmap"),
        &[
            "old.json",
            "new.json",
            "pin and unmap",
            "expected two of one route",
        ],
    );
}

#[test]
fn another_backend_and_another_unit_are_refused() {
    refused(|bill| bill["backend"] = json!("sim"), &["lab and sim"]);
    refused(
        |bill| bill["unit"] = json!("nanoseconds"),
        &["instructions and nanoseconds"],
    );
}

#[test]
fn bills_without_a_row_in_common_are_refused() {
    let renamed = |bill: &mut Value| {
        for row in bill["rows"].as_array_mut().unwrap() {
            row["kernel"] = json!("7.2.12");
        }
    };
    refused(renamed, &["without a row in common", "same kernel"]);
}

#[test]
fn what_is_no_bill_is_refused_with_its_place() {
    refused(|bill| *bill = json!([]), &["new.json", "line 1"]);
}
