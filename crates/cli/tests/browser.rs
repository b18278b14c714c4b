//! A page in a real browser: it is drawn without a message, requests nothing, and its only script runs.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::path::Path;
use std::process::Command;

use pagetoll_test_support::skip;

const BROWSER: &str = "chromium";
/// In seconds, on a busy machine.
const PATIENCE: &str = "300";

fn page(bill: &str, folder: &Path) -> std::path::PathBuf {
    let bill = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(bill);
    let mut report = Command::new(assert_cmd::cargo::cargo_bin!("pagetoll"));
    let output = report
        .arg("report")
        .arg(bill)
        .args(["--format", "html"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let page = folder.join("bill.html");
    fs::write(&page, output.stdout).unwrap();
    page
}

#[test]
fn a_page_is_drawn_without_a_message_and_its_tables_can_be_sorted() {
    if Command::new(BROWSER).arg("--version").output().is_err() {
        skip!("not installed: {BROWSER}");
    }
    let folder = tempfile::tempdir().unwrap();
    let page = page("docs/bill.json", folder.path());
    let mut browser = Command::new("timeout");
    browser
        .args([PATIENCE, BROWSER])
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--enable-logging=stderr", "--log-level=0", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", page.display()));
    let output = browser.output().unwrap();
    let drawn = String::from_utf8_lossy(&output.stdout);
    let messages = String::from_utf8_lossy(&output.stderr);
    let console: Vec<_> = messages
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(console.is_empty(), "{console:?}");
    let heads = drawn.matches("<th scope=\"col\"").count();
    assert!(
        heads > 20,
        "{heads} heads in {drawn:.300}\n{messages:.2000}"
    );
    assert_eq!(drawn.matches("<button type=\"button\">").count(), heads);
}
