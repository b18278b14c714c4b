//! Walls between crates that no compiler holds: where `unsafe` is, and what is published without the rest.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;

use super::page::root;

/// Crates whose modules may ask for `unsafe` at their head.
const UNSAFE: [&str; 2] = ["crates/live/", "crates/pager/"];
/// A linker section is named here, by an attribute that counts as unsafe.
const UNSAFE_ATTRIBUTE: &str = "crates/cli/src/output.rs";
/// Crates that are published, without the rest of the workspace.
const PUBLISHED: [&str; 2] = ["engine", "pager"];

/// Workspace lints deny `unsafe` where no module lifts them; only those of two crates do, each at its head.
pub(crate) fn hold_unsafe_code() -> Result<(), Failed> {
    let mut lifted = Vec::new();
    collect(&root(), "crates", &mut lifted)?;
    let problems: Vec<_> = lifted
        .iter()
        .filter(|(path, is_at_the_head)| {
            let is_allowed = UNSAFE.iter().any(|allowed| path.starts_with(allowed));
            path != UNSAFE_ATTRIBUTE && !(is_allowed && *is_at_the_head)
        })
        .map(|(path, _)| {
            format!(
                "{path}: allows unsafe_code; expected only at the head of modules of live and pager"
            )
        })
        .collect();
    match (problems.as_slice(), lifted.is_empty()) {
        ([], false) => Ok(()),
        ([], true) => Err("no module allows unsafe_code".into()),
        (problems, _) => Err(problems.join("\n").into()),
    }
}

/// Source files that lift the lint, and whether by an inner attribute.
fn collect(root: &Path, folder: &str, lifted: &mut Vec<(String, bool)>) -> Result<(), Failed> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                collect(root, &path, lifted)?;
            }
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(entry.path())?;
            for (at, _) in text.match_indices("unsafe_code") {
                let before = text[..at].trim_end();
                let lifts = |attribute: &str| before.ends_with(attribute);
                if lifts("allow(") || lifts("expect(") {
                    lifted.push((path.clone(), lifts("#![allow(") || lifts("#![expect(")));
                }
            }
        }
    }
    Ok(())
}

/// Published crates depend on no other crate of the workspace, but for their tests.
pub(crate) fn hold_published_crates() -> Result<(), Failed> {
    for name in PUBLISHED {
        let path = format!("crates/{name}/Cargo.toml");
        let text = fs::read_to_string(root().join(&path))?;
        let manifest: toml::Table = toml::from_str(&text)?;
        if manifest["package"]["publish"] != toml::Value::Boolean(true) {
            return Err(format!("{path}: publish: expected true").into());
        }
        let Some(dependencies) = manifest["dependencies"].as_table() else {
            return Err(format!("{path}: no dependencies").into());
        };
        if let Some(own) = dependencies.keys().find(|key| key.starts_with("pagetoll")) {
            return Err(
                format!("{path}: depends on {own}; expected none of this workspace").into(),
            );
        }
    }
    Ok(())
}
