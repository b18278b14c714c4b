//! Samples for the tests of this crate, and its place among the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Bill, Figures, Operation, Row, RowKey, System, from_json};
use pagetoll_units::Pages;

/// A row of `unmap`.
pub(crate) fn clear(mechanism: Unmap, cost: f64) -> Row {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0);
    Row::new(key, Pages(4), Figures::of_runs(vec![cost]))
}

/// A bill of `unmap` without rows, counted in the lab.
pub(crate) fn sample() -> Bill {
    from_json(include_bytes!("../tests/data/bill.json")).unwrap()
}

/// The crates of the workspace whose manifests name one of these.
fn dependents(on: &BTreeSet<String>) -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let depends = |manifest: &str| {
        let mut lines = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("pagetoll-"));
        lines.any(|line| on.contains(line.split(['.', ' ']).next().unwrap()))
    };
    let folders = fs::read_dir(crates).unwrap().map(|folder| folder.unwrap());
    let dependents = folders.filter(|folder| {
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml"));
        manifest.is_ok_and(|manifest| depends(&manifest))
    });
    dependents
        .map(|folder| folder.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn an_edit_builds_at_most_four_crates_again() {
    let mut built = BTreeSet::from(["compare".to_owned()]);
    loop {
        let more = &built | &dependents(&built);
        if more == built {
            break;
        }
        built = more;
    }
    assert!((2..=4).contains(&built.len()), "{built:?}");
}
