//! Every bill that this repository holds is a page, which is small and answers its reader's first questions at its head.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_bill::Bill;
use pagetoll_render::{Format, Width, bill};

const FOLDERS: [&str; 4] = [
    "docs",
    "costs",
    "crates/advice/bills",
    "crates/render/tests/data",
];
/// The size of a page without a flame graph.
const MOST: usize = 200_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bills(folder: &Path, found: &mut Vec<(PathBuf, Bill)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bills(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
            && let Ok(bill) = serde_json::from_slice(&fs::read(&path).unwrap())
        {
            found.push((path, bill));
        }
    }
}

fn all() -> Vec<(PathBuf, Bill)> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        bills(&root().join(folder), &mut found);
    }
    found
}

fn page(of: &Bill) -> String {
    let page = bill(of, Format::Html, Width::Unlimited).unwrap();
    page.replace("&#x2f;", "/")
}

#[test]
fn every_bill_is_a_small_page_with_its_verdict_and_its_command_first() {
    let bills = all();
    assert!(bills.len() > 20, "{}", bills.len());
    for (path, bill) in bills {
        let page = page(&bill);
        let head = page.find("</dl>").unwrap();
        for first in ["<dt>verdict</dt>", "<dt>to repeat it</dt>"] {
            let at = page.find(first);
            assert!(
                at.is_some_and(|at| at < head),
                "{}: {first}",
                path.display()
            );
        }
        assert!(
            page.len() < MOST,
            "{}: {} bytes",
            path.display(),
            page.len()
        );
        assert!(!page.contains(">NaN"), "{}", path.display());
    }
}

#[test]
fn the_bill_of_the_readme_answers_from_its_first_lines() {
    let text = fs::read(root().join("docs/bill.json")).unwrap();
    let page = page(&serde_json::from_slice(&text).unwrap());
    assert!(page.len() < 60_000, "{} bytes", page.len());
    let head = &page[..page.find("</dl>").unwrap()];
    for answer in [
        "trap-and-emulate of emulate: 1851.9 instr/page, 99.7 % of its cost",
        "preserve-ad: safe on SMP (smp-lost-dirty: 0 of",
        "in the negative control",
        "pagetoll bill unmap",
        "490.5 instead of 1858.0 instr/page of emulate, 3.79x",
    ] {
        assert!(head.contains(answer), "{answer}");
    }
    // A bar for each row with tolls, each with its figures for those who do not see it.
    assert_eq!(page.matches("<div class=\"bar\">").count(), 18);
    assert!(
        page.contains("aria-label=\"emulate, batch 1: read-entry 6.1, trap-and-emulate 1851.9\"")
    );
}
