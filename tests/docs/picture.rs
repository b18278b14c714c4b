//! The pictures in docs/ are what `make pictures` makes of the bills that they show.

use std::fs;
use std::process::Command;

use libtest_mimic::Failed;

use super::page::root;

/// A picture, and what makes it.
const PICTURES: [(&str, &str); 2] = [
    ("docs/bill.svg", "docs/bill.json"),
    ("docs/demand.svg", "--over vcpus docs/demand.json"),
];

pub(crate) fn shows_the_bill() -> Result<(), Failed> {
    let makefile = fs::read_to_string(root().join("Makefile"))?;
    for (picture, order) in PICTURES {
        let mut report = Command::new(assert_cmd::cargo::cargo_bin!("pagetoll"));
        report
            .current_dir(root())
            .args(["report", "--format", "svg"]);
        let made = report.args(order.split(' ')).output()?;
        if made.stdout != fs::read(root().join(picture))? {
            return Err(format!("{picture}: not what `make pictures` makes").into());
        }
        if !makefile.contains(&format!("report --format svg {order} > {picture}")) {
            return Err(format!("Makefile: does not make {picture}").into());
        }
    }
    Ok(())
}
