//! Promises of the threat model, and the tests that hold them.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;

use super::page::{Page, code_spans, root};

const PAGE: &str = "docs/threat-model.md";
/// Fewer would mean that the page is not read as it is written.
const LEAST: usize = 20;

/// Each promise of a table that has a column of tests names one, and each that is named exists.
pub(crate) fn have_tests() -> Result<(), Failed> {
    let mut sources = String::new();
    for folder in ["crates", "tests"] {
        add_sources(&root().join(folder), &mut sources)?;
    }
    let page = Page::read(PAGE)?.prose();
    let (mut promises, mut problems) = (0, Vec::new());
    for table in tables(&page) {
        let [head, _, rows @ ..] = table.as_slice() else {
            continue;
        };
        if !head.ends_with("| tests |") {
            continue;
        }
        for row in rows {
            promises += 1;
            let tests = row.trim_end_matches('|').rsplit('|').next();
            let named = code_spans(tests.unwrap_or_default());
            if named.is_empty() {
                problems.push(format!("{PAGE}: no test: {row}"));
            }
            let is_there = |name: &String| {
                sources.contains(&format!("fn {name}(")) || sources.contains(&format!("\"{name}\""))
            };
            let missing = named.iter().filter(|name| !is_there(name));
            problems.extend(missing.map(|name| format!("{PAGE}: no such test: {name}")));
        }
    }
    match problems.is_empty() && promises >= LEAST {
        true => Ok(()),
        false => Err(format!("{promises} promises\n{}", problems.join("\n")).into()),
    }
}

/// Lines that begin with a bar, those that follow each other together.
fn tables(page: &str) -> Vec<Vec<&str>> {
    let lines: Vec<_> = page.lines().collect();
    let parts = lines.split(|line| !line.starts_with('|'));
    parts.map(<[_]>::to_vec).collect()
}

fn add_sources(folder: &Path, sources: &mut String) -> Result<(), Failed> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_sources(&path, sources)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            *sources += &fs::read_to_string(path)?;
        }
    }
    Ok(())
}
