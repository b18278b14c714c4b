//! The gate of docs/ci.md, as written there, on bills that it has to pass and to stop.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use super::page::{Page, root};
use super::scratch::Scratch;

/// In place of `pagetoll bill`, which would boot guests: delivers the case's bill. All else is the program.
const PAGETOLL: &str = r#"#!/bin/sh
[ "$1" = bill ] || exec "$REAL" "$@"
if [ -e delivered.json ]; then cp delivered.json new.json; fi
exit "$BILL_EXIT"
"#;
/// In place of `gh`: keeps the comment.
const GH: &str = "#!/bin/sh\ncp \"$4\" posted.md\n";

struct Case {
    name: &'static str,
    base: Option<Value>,
    delivered: Option<Value>,
    /// Exit code of `pagetoll bill`.
    bill_exit: i32,
    /// Exit code of the gate.
    expected: i32,
    /// What the comment says; `None`: there is no comment.
    comment: Option<&'static str>,
}

pub(crate) fn gates() -> Result<(), Failed> {
    let page = Page::read("docs/ci.md")?;
    let gate = page
        .fences()
        .into_iter()
        .find(|fence| fence.info == "sh gate");
    let script = gate.ok_or("docs/ci.md has no block `sh gate`")?.body;
    for case in cases()? {
        run(&case, &script)
            .map_err(|error| format!("{}: {}", case.name, error.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn cases() -> Result<Vec<Case>, Failed> {
    let sound = sound()?;
    let changed = |change: fn(&mut Value)| {
        let mut bill = sound.clone();
        change(&mut bill);
        Some(bill)
    };
    let case = |name, delivered, expected, comment| Case {
        name,
        base: Some(sound.clone()),
        delivered,
        bill_exit: 0,
        expected,
        comment,
    };
    Ok(vec![
        case("good", Some(sound.clone()), 0, Some("")),
        case("regressed", changed(regress), 1, Some("regressed")),
        case("unsafe", changed(lose_bits), 1, Some("preserve-ad")),
        case(
            "rows missing",
            changed(drop_a_row),
            1,
            Some("dontneed-written"),
        ),
        case(
            "of another route",
            changed(|bill| bill["route"] = json!("fault")),
            2,
            None,
        ),
        Case {
            bill_exit: 3,
            ..case("failed", None, 3, None)
        },
        Case {
            bill_exit: 1,
            ..case("failed after it was written", Some(sound.clone()), 1, None)
        },
        Case {
            base: None,
            ..case("base missing", Some(sound.clone()), 2, None)
        },
        case("bill missing", None, 2, None),
    ])
}

fn run(case: &Case, script: &str) -> Result<(), Failed> {
    let scratch = Scratch::empty()?;
    let folder = scratch.path();
    fs::remove_file(scratch.bin().join("pagetoll"))?;
    program(&scratch.bin().join("pagetoll"), PAGETOLL)?;
    program(&scratch.bin().join("gh"), GH)?;
    // Of an earlier job: what the gate must not compare or post.
    fs::write(folder.join("new.json"), sound()?.to_string())?;
    fs::write(folder.join("comment.md"), "stale")?;
    for (name, bill) in [
        ("base.json", &case.base),
        ("delivered.json", &case.delivered),
    ] {
        if let Some(bill) = bill {
            fs::write(folder.join(name), bill.to_string())?;
        }
    }
    let exit = case.bill_exit.to_string();
    let variables = [
        ("REAL", env!("CARGO_BIN_EXE_pagetoll")),
        ("BILL_EXIT", &exit),
    ];
    let output = scratch.shell(folder, script, &variables)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(case.expected) {
        return Err(format!(
            "{}, expected exit {}: {stderr}",
            output.status, case.expected
        )
        .into());
    }
    check_comment(case, fs::read_to_string(folder.join("posted.md")).ok())
}

fn check_comment(case: &Case, posted: Option<String>) -> Result<(), Failed> {
    match (case.comment, posted) {
        (None, None) => Ok(()),
        (Some(expected), Some(posted))
            if posted.to_lowercase().contains(expected) && posted != "stale" =>
        {
            Ok(())
        }
        (expected, posted) => {
            Err(format!("expected a comment with {expected:?}, posted {posted:?}").into())
        }
    }
}

fn program(path: &Path, text: &str) -> Result<(), Failed> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// The sample bill with its failed check mended.
fn sound() -> Result<Value, Failed> {
    let sample = fs::read_to_string(root().join("crates/render/tests/data/sample-bill.json"))?;
    let mut bill: Value = serde_json::from_str(&sample)?;
    for row in rows(&mut bill) {
        for check in row["checks"].as_array_mut().into_iter().flatten() {
            if check["name"] == "pte-none" {
                check["failed"] = json!(0);
                check["verdict"] = json!("pass");
            }
        }
    }
    Ok(bill)
}

fn rows(bill: &mut Value) -> impl Iterator<Item = &mut Value> {
    bill["rows"].as_array_mut().into_iter().flatten()
}

fn regress(bill: &mut Value) {
    for row in rows(bill).filter(|row| row["mechanism"] == "preserve-ad") {
        let cost = row["cost_per_page"].as_f64().unwrap_or_default();
        row["cost_per_page"] = json!(cost * 1.02);
    }
}

/// `preserve-ad` loses D bits in its race.
fn lose_bits(bill: &mut Value) {
    for row in rows(bill).filter(|row| row["mechanism"] == "preserve-ad" && row["smp_safe"] == true)
    {
        row["smp_safe"] = json!(false);
        for check in row["checks"].as_array_mut().into_iter().flatten() {
            if check["name"] == "smp-lost-dirty" {
                check["failed"] = json!(5000);
                check["verdict"] = json!("fail");
            }
        }
    }
}

fn drop_a_row(bill: &mut Value) {
    let last = |rows: &mut Vec<Value>| rows.pop();
    bill["rows"].as_array_mut().and_then(last);
}
