//! Pages of every kind in a real browser: no request, no message, no fault for those who read otherwise; tables sort, and all
//! is there without scripts.

mod driver;

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::{Browser, Look, missing};
use pagetoll_test_support::skip;

use crate::{program, repository};

/// Kinds of pages, and the command for each.
const PAGES: &[(&str, &str)] = &[
    ("bill", "report docs/bill.json"),
    (
        "profiled",
        "report crates/render/tests/data/sample-profile.json",
    ),
    ("rates", "report crates/render/tests/data/demand-sim.json"),
    (
        "curve",
        "report --over vcpus crates/render/tests/data/demand-sim.json",
    ),
    (
        "kernels",
        "report --over kernel costs/lab-vfio.bills/2M.json",
    ),
    (
        "diff",
        "diff crates/advice/bills/arm64-vhe.json crates/advice/bills/arm64-nvhe.json",
    ),
    ("validate", "validate"),
    ("sweep", "sweep show STORE"),
    ("read", "read crates/xentrace/tests/data/xentrace-unmap.bin"),
];

const fn look(width: u32, is_dark: bool) -> Look {
    Look {
        width,
        is_dark,
        runs_scripts: true,
    }
}

const LOOKS: [Look; 4] = [
    look(1280, false),
    look(1280, true),
    look(390, false),
    look(390, true),
];

/// Requests of a page, beside that for itself.
const REQUESTS: &str = "return performance.getEntriesByType('resource').map(one => one.name)";

/// Clicks the head of the second table's last column twice, and gives that column after each click and the head's state.
const SORT: &str = "
    const table = document.querySelectorAll('table')[0], head = table.tHead.rows[0].cells;
    const last = head[head.length - 1], column = () => [...table.tBodies[0].rows].map(row => row.cells[last.cellIndex].textContent);
    const seen = [];
    for (let click = 0; click < 2; click++) {
        last.querySelector('button').click();
        seen.push([last.getAttribute('aria-sort'), column()]);
    }
    return seen;";

fn page(command: &str, file: &Path) {
    let mut made = Command::new(program());
    made.current_dir(repository())
        .args(command.split(' '))
        .arg("--output")
        .arg(file);
    let output = made.output().unwrap();
    assert!(
        file.exists(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let store = folder.join("store");
    swept(&store);
    let make = |(name, command): &(&str, &str)| {
        let file = folder.join(name).with_extension("html");
        page(&command.replace("STORE", &store.to_string_lossy()), &file);
        file
    };
    PAGES.iter().map(make).collect()
}

/// A store of two bills.
fn swept(store: &Path) {
    let plan = store.with_extension("toml");
    let axes = "[axes]\nroute = [\"unmap\", \"irq\"]\n[options]\non = \"sim\"\n";
    std::fs::write(&plan, axes).unwrap();
    let mut sweep = Command::new(program());
    sweep.arg("sweep").arg(plan).arg("--store").arg(store);
    assert!(sweep.output().unwrap().status.success());
}

#[test]
fn pages_request_nothing_say_nothing_and_have_no_fault() {
    if let Some(program) = missing() {
        skip!("not installed: {program}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(folder.path());
    for (number, look) in LOOKS.into_iter().enumerate() {
        let browser = Browser::start(look, &folder.path().join(number.to_string()));
        for page in &pages {
            browser.open(page);
            let requests = browser.run(REQUESTS);
            assert_eq!(requests, serde_json::json!([]), "{}", page.display());
            browser.run(
                "for (const folded of document.querySelectorAll('details')) folded.open = true",
            );
            let faults = browser.run(include_str!("browser/faults.js"));
            assert_eq!(faults, serde_json::json!([]), "{} {look:?}", page.display());
            let messages = browser.messages();
            assert!(messages.is_empty(), "{}: {messages:?}", page.display());
        }
    }
}

#[test]
fn tables_are_sorted_by_their_heads() {
    if let Some(program) = missing() {
        skip!("not installed: {program}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    page(
        "report --over vcpus crates/render/tests/data/demand-sim.json",
        &file,
    );
    let browser = Browser::start(LOOKS[0], &folder.path().join("profile"));
    browser.open(&file);
    let seen = browser.run(SORT);
    for (click, state) in ["ascending", "descending"].iter().enumerate() {
        assert_eq!(seen[click][0], *state);
        let cells = seen[click][1].as_array().unwrap();
        let numbers: Vec<f64> = cells
            .iter()
            .filter_map(|cell| cell.as_str().unwrap().parse().ok())
            .collect();
        assert!(numbers.len() > 2, "{seen}");
        let in_order = |pair: &[f64]| {
            if click == 0 {
                pair[0] <= pair[1]
            } else {
                pair[0] >= pair[1]
            }
        };
        assert!(numbers.windows(2).all(in_order), "{seen}");
    }
}

/// A page without scripts lacks the buttons of its heads and nothing else.
#[test]
fn without_scripts_all_content_is_there() {
    if let Some(program) = missing() {
        skip!("not installed: {program}");
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |runs_scripts, name: &str| {
        Browser::start(
            Look {
                runs_scripts,
                ..LOOKS[0]
            },
            &folder.path().join(name),
        )
    };
    let (with, without) = (start(true, "with"), start(false, "without"));
    for page in pages(folder.path()) {
        let source = |browser: &Browser| {
            browser.open(&page);
            browser.source()
        };
        let (with, without) = (source(&with), source(&without));
        let heads = without.matches("<th scope=").count();
        assert_eq!(with.matches("<button type=\"button\">").count(), heads);
        assert_eq!(without.matches("<button").count(), 0);
        let text = with
            .replace("<button type=\"button\">", "")
            .replace("</button>", "");
        assert_eq!(text, without, "{}", page.display());
    }
}
