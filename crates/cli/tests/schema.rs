//! The documented form of a bill against a bill.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../../../docs/bill-schema.json");
const SAMPLE: &str = include_str!("data/sample-bill.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
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
    assert!(spoilt("/rows/2/batch", json!(0)));
    assert!(spoilt("/rows/2/checks/0/verdict", json!("perhaps")));
    assert!(spoilt("/rows/2/cost_per_page", json!("1835.5")));
    assert!(spoilt("/provenance/packages/0/sha256", json!("abc")));
}

/// Follows a `$ref` into `$defs`.
fn resolved<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => part,
    }
}

/// Collects the fields of `value` that its schema does not list, and walks on into those that it does.
fn undocumented(root: &Value, part: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let part = resolved(root, part);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}/{name}");
                let listed = part.get("properties").and_then(|known| known.get(name));
                match listed.or_else(|| part.get("additionalProperties")) {
                    Some(next) => undocumented(root, next, value, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                undocumented(root, &part["items"], item, path, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_field_of_a_bill_is_documented() {
    let mut found = Vec::new();
    undocumented(&schema(), &schema(), &sample(), "", &mut found);
    assert!(found.is_empty(), "{found:?}");
    undocumented(&schema(), &schema(), &json!({"new": 1}), "", &mut found);
    assert_eq!(found, ["/new"]);
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
    walk("bill", &schema);
    for (name, part) in schema["$defs"].as_object().unwrap() {
        walk(name, part);
    }
}
