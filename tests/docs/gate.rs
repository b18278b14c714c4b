//! The gates of docs/ci.md and of action.yml, which packaging/ci/gate is, on bills that they have to pass and to stop.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use super::page::{Page, root};
use super::scratch::Scratch;

/// In place of `pagetoll bill` and `count`, which would boot guests: delivers the case's bill, or that of the base, and
/// tells its words. All else is the program.
const PAGETOLL: &str = r#"#!/bin/sh
case $1 in bill | count) ;; *) exec "$REAL" "$@" ;; esac
echo "$*" >> words
case $* in
    *against.json*) cp ../old.json ../against.json; exit ;;
esac
if [ -e delivered.json ]; then cp delivered.json new.json; fi
exit "$BILL_EXIT"
"#;
/// The checked-out tree, in which a gate runs, beside the base's bill.
const TREE: &str = "tree";
/// In place of `gh`: keeps the comment, the last word, on the pull request of its third.
const GH: &str =
    "#!/bin/sh\n[ \"$3\" = 7 ] || exit\nfor file; do :; done\ncp \"$file\" posted.md\n";

struct Case {
    name: &'static str,
    base: Option<Value>,
    delivered: Option<Value>,
    /// Exit code of `pagetoll bill`.
    bill_exit: i32,
    /// Exit code of the gate.
    expected: i32,
    /// Text of the comment; `None` without one.
    comment: Option<&'static str>,
}

/// A gate script and its environment variables.
struct Gate {
    script: String,
    variables: &'static [(&'static str, &'static str)],
    role: Role,
    /// Exit code where there is no bill of the base.
    without_base: i32,
}

/// Consequence of a regression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Gate,
    Advice,
}

impl Role {
    /// Exit code where a gate's is `gate`: advice passes what was billed, and fails where nothing was.
    fn exit(self, gate: i32, delivered: bool) -> i32 {
        match self {
            Self::Advice if delivered => 0,
            Self::Gate | Self::Advice => gate,
        }
    }
}

pub(crate) fn gates() -> Result<(), Failed> {
    let action = action_gate(Role::Gate)?;
    bases_in_the_tree(&action)?;
    bases_billed_in_the_job(&action)?;
    orders_refused(&action)?;
    for gate in [documentation_gate()?, action, action_gate(Role::Advice)?] {
        for case in cases()? {
            run(&case, &gate).map_err(|error| {
                format!("{}: {}", case.name, error.message().unwrap_or_default())
            })?;
        }
    }
    Ok(())
}

fn documentation_gate() -> Result<Gate, Failed> {
    let page = Page::read("docs/ci.md")?;
    let mut fences = page.fences().into_iter();
    let gate = fences.find(|fence| fence.info == "sh gate");
    Ok(Gate {
        script: gate.ok_or("docs/ci.md has no block `sh gate`")?.body,
        variables: &[],
        role: Role::Gate,
        without_base: 2,
    })
}

/// The script that the last step of action.yml runs, with every input.
fn action_gate(role: Role) -> Result<Gate, Failed> {
    const GATE: [(&str, &str); 9] = [
        ("COMMAND", ""),
        ("ORDER", "unmap --on lab"),
        ("AGAINST", ""),
        ("BASE", ""),
        ("BILL", "new.json"),
        ("GATE", "true"),
        ("TOLERANCE", "0.5"),
        ("COMMENT", "true"),
        ("PULL_REQUEST", "7"),
    ];
    const ADVICE: [(&str, &str); 9] = {
        let mut variables = GATE;
        variables[0] = ("COMMAND", "bill unmap --on lab");
        variables[1] = ("ORDER", "");
        variables[5] = ("GATE", "false");
        variables
    };
    let action = fs::read_to_string(root().join("action.yml"))?;
    let (inputs, steps) = action
        .split_once("\nruns:\n")
        .ok_or("action.yml runs nothing")?;
    let (_, inputs) = inputs
        .split_once("\ninputs:\n")
        .ok_or("action.yml has no inputs")?;
    let inputs = inputs.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.strip_suffix(':')?;
        (!name.starts_with(' ')).then_some(name)
    });
    for name in inputs {
        let variable = name.to_uppercase();
        let passed = format!("{variable}: ${{{{ inputs.{name} }}}}\n");
        if !steps.contains(&passed) || GATE.iter().all(|(known, _)| *known != variable) {
            return Err(format!("action.yml does not pass its input {name}").into());
        }
    }
    let script = "packaging/ci/gate";
    if !steps.ends_with(&format!("\"$GITHUB_ACTION_PATH/{script}\"\n")) {
        return Err(format!("the last step of action.yml is not {script}").into());
    }
    Ok(Gate {
        script: fs::read_to_string(root().join(script))?,
        variables: match role {
            Role::Gate => &GATE,
            Role::Advice => &ADVICE,
        },
        role,
        without_base: 0,
    })
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

fn run(case: &Case, gate: &Gate) -> Result<(), Failed> {
    let scratch = checked_out()?;
    let tree = scratch.path().join(TREE);
    // Of an earlier job: what the gate must not compare or post.
    fs::write(tree.join("new.json"), sound()?.to_string())?;
    fs::write(tree.join("comment.md"), "stale")?;
    for (place, bill) in [
        (scratch.path().join("base.json"), &case.base),
        (tree.join("delivered.json"), &case.delivered),
    ] {
        if let Some(bill) = bill {
            fs::write(place, bill.to_string())?;
        }
    }
    let exit = case.bill_exit.to_string();
    let output = gate_output(&scratch, gate, &[("BILL_EXIT", &exit)])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = match case.base {
        Some(_) => case.expected,
        None => gate.without_base,
    };
    let expected = gate.role.exit(expected, case.delivered.is_some());
    if output.status.code() != Some(expected) {
        return Err(format!("{}, expected exit {expected}: {stderr}", output.status).into());
    }
    let posted = fs::read_to_string(tree.join("posted.md")).ok();
    match (case.bill_exit, gate.role) {
        // A check failed; what was billed is compared all the same.
        (1, Role::Advice) => check_comment(Some("advisory"), posted),
        _ => check_comment(case.comment, posted),
    }
}

/// An empty tree, and programs that stand in for others.
fn checked_out() -> Result<Scratch, Failed> {
    let scratch = Scratch::empty()?;
    fs::remove_file(scratch.bin().join("pagetoll"))?;
    program(&scratch.bin().join("pagetoll"), PAGETOLL)?;
    program(&scratch.bin().join("gh"), GH)?;
    fs::create_dir(scratch.path().join(TREE))?;
    Ok(scratch)
}

fn gate_output(
    scratch: &Scratch,
    gate: &Gate,
    variables: &[(&str, &str)],
) -> Result<Output, Failed> {
    let (temp, tree) = (scratch.path(), scratch.path().join(TREE));
    let runner = [
        ("REAL", env!("CARGO_BIN_EXE_pagetoll")),
        ("RUNNER_TEMP", &temp.to_string_lossy()),
        ("GITHUB_WORKSPACE", &tree.to_string_lossy()),
        ("GITHUB_REPOSITORY", "owner/linux"),
        ("PULL_REQUEST", "7"),
    ];
    let variables = [&runner, gate.variables, variables].concat();
    scratch.shell(&tree, &gate.script, &variables)
}

/// A change that brings its own base, which allows everything: as a file, behind a link that leads out of the tree, by another
/// name of the tree, and by a name that a shell could take for more than a name.
fn bases_in_the_tree(action: &Gate) -> Result<(), Failed> {
    let scratch = checked_out()?;
    let (outside, tree) = (scratch.path(), scratch.path().join(TREE));
    let bill = sound()?.to_string();
    fs::create_dir(outside.join("old"))?;
    fs::write(outside.join("old/base.json"), &bill)?;
    symlink(outside.join("old"), tree.join("link"))?;
    symlink(&tree, outside.join("alias"))?;
    let odd = "-x $(touch ran) \"'*\n.json";
    for name in ["base.json", "delivered.json", odd] {
        fs::write(tree.join(name), &bill)?;
    }
    let absolute = |name: &str| outside.join(name).to_string_lossy().into_owned();
    let bases = [
        "base.json".to_owned(),
        "link/base.json".to_owned(),
        "link/../old/base.json".to_owned(),
        "../tree/base.json".to_owned(),
        odd.to_owned(),
        absolute("alias/base.json"),
        absolute("alias/link/base.json"),
        absolute("alias/absent.json"),
    ];
    for base in &bases {
        let output = gate_output(&scratch, action, &[("BILL_EXIT", "0"), ("BASE", base)])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !stderr.contains("is in the checked-out tree") {
            return Err(format!("base {base:?}: {}: {stderr}", output.status).into());
        }
    }
    let ran = tree.join("ran").exists() || tree.join("posted.md").exists();
    let elsewhere = absolute("old/base.json");
    let output = gate_output(
        &scratch,
        action,
        &[("BILL_EXIT", "0"), ("BASE", &elsewhere)],
    )?;
    match (ran, output.status.code()) {
        (false, Some(0)) => Ok(()),
        _ => Err(format!("ran: {ran}; of another folder: {output:?}").into()),
    }
}

/// A base that is billed in the same job, by a command of its own.
fn bases_billed_in_the_job(action: &Gate) -> Result<(), Failed> {
    let scratch = checked_out()?;
    let tree = scratch.path().join(TREE);
    fs::write(scratch.path().join("old.json"), sound()?.to_string())?;
    let mut bill = sound()?;
    regress(&mut bill);
    fs::write(tree.join("delivered.json"), bill.to_string())?;
    let variables = [
        ("BILL_EXIT", "0"),
        ("ORDER", ""),
        ("COMMAND", "count --vary 4 -- ./touch {n}"),
        (
            "AGAINST",
            "count --kernel ../base/bzImage --vary 4 -- ./touch {n}",
        ),
    ];
    let output = gate_output(&scratch, action, &variables)?;
    let words = fs::read_to_string(tree.join("words")).unwrap_or_default();
    let base = scratch.path().join("against.json");
    let expected = format!(
        "count --output {} --kernel ../base/bzImage --vary 4 -- ./touch {{n}}\n\
         count --output new.json --vary 4 -- ./touch {{n}}\n",
        base.display()
    );
    if output.status.code() != Some(1) || words != expected {
        return Err(format!("{output:?}\n{words}").into());
    }
    let posted = fs::read_to_string(tree.join("posted.md")).ok();
    check_comment(Some("`pagetoll count --vary 4 -- ./touch {n}`"), posted)
}

fn orders_refused(action: &Gate) -> Result<(), Failed> {
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("ORDER", "")], "command: is empty"),
        (&[("COMMAND", "bill unmap")], "both are given"),
        (
            &[("ORDER", ""), ("COMMAND", "doctor --install")],
            "makes no bill",
        ),
        (&[("ORDER", ""), ("COMMAND", "bill")], "expected more words"),
        (
            &[("AGAINST", "bill unmap"), ("BASE", "/base.json")],
            "both are given",
        ),
        (&[("GATE", "yes")], "expected true or false"),
    ];
    for (variables, expected) in cases {
        let output = gate_output(&checked_out()?, action, variables)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !stderr.contains(expected) {
            return Err(format!("{variables:?}: {output:?}").into());
        }
    }
    Ok(())
}

fn check_comment(expected: Option<&str>, posted: Option<String>) -> Result<(), Failed> {
    match (expected, posted) {
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

pub(crate) fn program(path: &Path, text: &str) -> Result<(), Failed> {
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
