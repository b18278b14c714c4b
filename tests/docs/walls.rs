//! Walls between crates that no compiler holds: where `unsafe` is, and what stands without the rest.

use std::fs;

use libtest_mimic::Failed;

use super::page::{Page, files, root};

/// Crates whose modules may ask for `unsafe` at their head.
const UNSAFE: [&str; 7] = [
    "crates/live/",
    "crates/live-demand/",
    "crates/live-guests/",
    "crates/live-host/",
    "crates/marks/",
    "crates/pager/",
    "crates/vmm/",
];
/// A linker section is named here, by an attribute that counts as unsafe.
const UNSAFE_ATTRIBUTE: &str = "crates/cli/src/output.rs";
/// Crates that are published, without the rest of the workspace.
const PUBLISHED: [&str; 3] = ["engine", "marks", "pager"];
/// Crates that depend on no other crate of the workspace.
const STANDALONE: [&str; 4] = ["engine", "marks", "pager", "vmm"];
/// The page with the dependencies of a VMM.
const EMBEDDING: &str = "docs/embedding.md";

/// Workspace lints deny `unsafe` where no module lifts them; only those of these crates do, each at its head.
pub(crate) fn hold_unsafe_code() -> Result<(), Failed> {
    let mut lifted = Vec::new();
    for path in files("crates", "rs")? {
        let text = fs::read_to_string(root().join(&path))?;
        for (at, _) in text.match_indices("unsafe_code") {
            let before = text[..at].trim_end();
            let lifts = |attribute: &str| before.ends_with(attribute);
            if lifts("allow(") || lifts("expect(") {
                let is_at_the_head = lifts("#![allow(") || lifts("#![expect(");
                lifted.push((path.clone(), is_at_the_head));
            }
        }
    }
    let problems: Vec<_> = lifted
        .iter()
        .filter(|(path, is_at_the_head)| {
            let is_allowed = UNSAFE.iter().any(|allowed| path.starts_with(allowed));
            path != UNSAFE_ATTRIBUTE && !(is_allowed && *is_at_the_head)
        })
        .map(|(path, _)| {
            format!(
                "{path}: allows unsafe_code; expected only at the head of modules of live*, marks, pager and vmm"
            )
        })
        .collect();
    match (problems.as_slice(), lifted.is_empty()) {
        ([], false) => Ok(()),
        ([], true) => Err("no module allows unsafe_code".into()),
        (problems, _) => Err(problems.join("\n").into()),
    }
}

/// Published crates and the VMM depend on no other crate of the workspace, but for their tests.
pub(crate) fn hold_standalone_crates() -> Result<(), Failed> {
    for name in PUBLISHED {
        if manifest(name)?["package"]["publish"] != toml::Value::Boolean(true) {
            return Err(format!("{name}: publish: expected true").into());
        }
    }
    for name in STANDALONE {
        let manifest = manifest(name)?;
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let mut names = dependencies.into_iter().flat_map(toml::Table::keys);
        if let Some(own) = names.find(|key| key.starts_with("pagetoll")) {
            return Err(format!("{name}: depends on {own}; expected no crate of pagetoll").into());
        }
    }
    Ok(())
}

/// The versions that a VMM is told to use are those that the pager uses.
pub(crate) fn hold_versions() -> Result<(), Failed> {
    let manifest = manifest("pager")?;
    let used = table(&manifest, "dependencies")?;
    let fences = Page::read(EMBEDDING)?.fences();
    let Some(fence) = fences.iter().find(|fence| fence.info == "toml") else {
        return Err(format!("{EMBEDDING}: no dependencies").into());
    };
    let told: toml::Table = toml::from_str(&fence.body)?;
    for (name, version) in table(&told, "dependencies")? {
        let expected = match (name.as_str(), used.get(name)) {
            ("pagetoll-pager", _) => Some(&manifest["package"]["version"]),
            (_, Some(toml::Value::Table(dependency))) => dependency.get("version"),
            (_, dependency) => dependency,
        };
        let expected = expected.and_then(toml::Value::as_str).unwrap_or("none");
        if !version
            .as_str()
            .is_some_and(|told| expected.starts_with(told))
        {
            return Err(format!("{EMBEDDING}: {name} = {version}; expected {expected}").into());
        }
    }
    Ok(())
}

fn manifest(name: &str) -> Result<toml::Table, Failed> {
    let path = root().join(format!("crates/{name}/Cargo.toml"));
    Ok(toml::from_str(&fs::read_to_string(path)?)?)
}

fn table<'a>(manifest: &'a toml::Table, key: &str) -> Result<&'a toml::Table, Failed> {
    let table = manifest.get(key).and_then(toml::Value::as_table);
    Ok(table.ok_or_else(|| format!("no table {key}"))?)
}
