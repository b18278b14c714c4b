//! Guests that misbehave: `tests/guests/dom0.S` in its four ways.

use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::Failed;

use crate::bench::{Bench, must_fail, must_succeed, nothing_is_left};

fn misbehaving(bench: &Bench, behaviour: &str) -> Result<PathBuf, Failed> {
    let guests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests");
    let kernel = bench.folder.path().join(behaviour);
    let mut compile = Command::new("gcc");
    compile
        .args([
            "-nostdlib",
            "-static",
            "-no-pie",
            "-Wl,--build-id=none",
            "-Wl,--no-warn-rwx-segments",
            "-T",
        ])
        .arg(guests.join("dom0.lds"))
        .arg(format!("-DBEHAVIOUR={behaviour}"))
        .arg("-o")
        .arg(&kernel)
        .arg(guests.join("dom0.S"));
    must_succeed(compile)?;
    Ok(kernel)
}

/// With so many seconds of CPU time until a silent guest is given up: without Xen, each of these guests is silent.
fn fails_with(bench: &Bench, behaviour: &str, timeout: &str, parts: &[&str]) -> Result<(), Failed> {
    let kernel = misbehaving(bench, behaviour)?;
    let mut command = bench.small_bill(&["--timeout", timeout, "--kernel"]);
    command.arg(kernel);
    must_fail(command, 3, parts)?;
    nothing_is_left(&bench.cache)
}

/// Under Xen, whose machine's clock jumps over idle time, both use CPU time without end.
pub(crate) fn hangs(bench: &Bench) -> Result<(), Failed> {
    for behaviour in ["SPIN", "HALT"] {
        fails_with(
            bench,
            behaviour,
            "3",
            &["no report in 3 s of", "console.log"],
        )?;
    }
    Ok(())
}

pub(crate) fn crashes(bench: &Bench) -> Result<(), Failed> {
    fails_with(
        bench,
        "CRASH",
        "600",
        &[
            "the dom0 guest failed",
            "Domain 0 (vcpu#0) crashed on cpu#0",
            "dom0.console.log",
        ],
    )
}

pub(crate) fn prints_garbage(bench: &Bench) -> Result<(), Failed> {
    fails_with(
        bench,
        "GARBAGE",
        "600",
        &[
            "the dom0 guest failed",
            "garbled result line",
            "dom0.console.log",
        ],
    )
}
