//! The documented form of a bill against a bill.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

const SAMPLE: &str = include_str!("../../../render/tests/data/sample-bill.json");

fn schema() -> Value {
    pagetoll_bill::schema()
}

fn sample() -> Value {
    serde_json::from_str(SAMPLE).unwrap()
}

#[test]
fn the_sample_is_valid() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&sample())
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn what_is_not_a_bill_is_not_valid() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let spoilt = |pointer: &str, value: Value| {
        let mut bill = sample();
        *bill.pointer_mut(pointer).unwrap() = value;
        !validator.is_valid(&bill)
    };
    assert!(spoilt("/schema", json!("pagetoll.bill/2")));
    assert!(spoilt("/rows/2/role", json!("during")));
    assert!(spoilt("/rows/2/checks/0/verdict", json!("perhaps")));
    assert!(spoilt("/rows/2/cost_per_page", json!("1835.5")));
}

#[test]
fn the_documented_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bill-schema.json");
    let generated = serde_json::to_string_pretty(&pagetoll_bill::schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == generated,
        "docs/bill-schema.json is not what the types give; run this test with UPDATE_EXPECT=1"
    );
}

#[test]
fn every_documented_field_is_described() {
    fn walk(name: &str, part: &Value) {
        let described = part.get("description").is_some() || part.get("$ref").is_some();
        assert!(described, "{name} has no description");
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            walk(name, field);
        }
    }
    let schema = schema();
    for (name, part) in schema["$defs"].as_object().unwrap() {
        walk(name, part);
    }
}
