//! Bills that cannot be compared: refused with what was expected, by exit code 2.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{pagetoll, repository};

/// A bill of VFIO that the lab counted.
fn counted() -> Value {
    let path = repository().join("crates/cli/tests/data/pin-held-out.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn write(folder: &Path, name: &str, bill: &Value) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, serde_json::to_vec(bill).unwrap()).unwrap();
    path
}

/// The bill compared with a changed one: exit code, and all output.
fn against(change: impl FnOnce(&mut Value)) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let old = write(folder.path(), "old.json", &counted());
    let mut bill = counted();
    change(&mut bill);
    let new = write(folder.path(), "new.json", &bill);
    let output = pagetoll(&["diff"]).arg(old).arg(new).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code().unwrap(), said)
}

/// The bill, which has two kernels, compared with these arguments: exit code, and all that was said.
fn alone(arguments: &[&str], change: impl FnOnce(&mut Value)) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut bill = counted();
    change(&mut bill);
    let file = write(folder.path(), "bill.json", &bill);
    let mut command = pagetoll(&["diff"]);
    let output = command.arg(file).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code().unwrap(), said)
}

fn refused(change: impl FnOnce(&mut Value), parts: &[&str]) {
    let (code, said) = against(change);
    assert_eq!(code, 2, "{said}");
    for part in parts {
        assert!(said.contains(part), "{part} not in {said}");
    }
}

#[test]
fn a_bill_is_the_same_as_itself_and_a_regression_fails() {
    assert_eq!(against(|_| ()).0, 0);
    let regressed = |bill: &mut Value| {
        for row in bill["rows"].as_array_mut().unwrap() {
            let cost = row["cost_per_page"].as_f64().unwrap();
            row["cost_per_page"] = json!(cost * 1.02);
        }
    };
    let (code, said) = against(regressed);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("+2.0 %"), "{said}");
}

#[test]
fn lost_bits_more_crossings_and_missing_figures_fail() {
    let first = |bill: &mut Value, edit: &dyn Fn(&mut Value)| edit(&mut bill["rows"][0]);
    let lost = json!({"name": "frame", "tried": 9, "failed": 5, "verdict": "fail"});
    let (code, said) = against(|bill| {
        first(bill, &|row| {
            row["checks"].as_array_mut().unwrap().push(lost.clone())
        });
    });
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("frame: 5 of 9"), "{said}");
    let (code, said) = against(|bill| {
        first(bill, &|row| {
            row["cost_per_page"] = Value::Null;
            row["unavailable"] = json!("no such device");
        });
    });
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("has no figures in the new bill"), "{said}");
}

#[test]
fn other_pages_are_refused_by_name() {
    refused(
        |bill| bill["order"]["pages"] = json!(1),
        &["different orders", "--pages"],
    );
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
    let as_unmap = |bill: &mut Value| {
        bill["route"] = json!("unmap");
        bill["order"]["mechanisms"] = json!([]);
    };
    refused(
        as_unmap,
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
            row["kernel"] = json!(format!("{}-rc1", row["kernel"].as_str().unwrap()));
        }
    };
    refused(renamed, &["without a comparable row", "same kernel"]);
}

#[test]
fn a_file_that_is_no_bill_is_refused_with_its_place() {
    refused(|bill| *bill = json!([]), &["new.json: a list in JSON"]);
}

#[test]
fn the_two_kernels_of_one_bill_are_compared() {
    let (code, said) = alone(&["--format", "json"], |_| ());
    // Their small pages lay in other memory, as those of two bills would have.
    assert_eq!(code, 1, "{said}");
    let diff: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(diff["changes"].as_array().unwrap().len(), 6, "{said}");
    let improved = diff["changes"].as_array().unwrap().iter();
    assert!(
        improved
            .clone()
            .any(|change| change["verdict"] == "improved")
    );
    let three = |bill: &mut Value| bill["rows"][0]["kernel"] = json!("7.2");
    let (code, said) = alone(&[], three);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("rows of 3 kernels; expected two"), "{said}");
}

#[test]
fn rows_that_were_named_are_compared_alone() {
    let (code, said) = alone(
        &["--row", "map,2M", "--row", "1G", "--format", "json"],
        |_| (),
    );
    assert_eq!(code, 0, "{said}");
    let diff: Value = serde_json::from_str(&said).unwrap();
    let rows: Vec<_> = diff["changes"].as_array().unwrap().iter().collect();
    assert!(
        rows.iter()
            .all(|row| row["folio"] == "1G" || row["folio"] == "2M")
    );
    assert!(rows.iter().any(|row| row["operation"] == "unmap"));
    let (code, said) = alone(&["--row", "munmap"], |_| ());
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("--row munmap: no such row; expected words of: map, unmap, "),
        "{said}"
    );
}
