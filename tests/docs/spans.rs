//! Commands in running text: those of pagetoll have to parse, targets of make to exist.

use libtest_mimic::{Failed, Trial};

use super::page::{Page, code_spans, root};
use super::scratch::Scratch;

/// A placeholder that is parsed; others stand for files and names.
const ROUTE: &str = "ROUTE";

pub(crate) fn trial(page: &Page) -> Trial {
    let path = page.path.clone();
    Trial::test(format!("commands in the text of {path}"), move || {
        parse(&path)
    })
}

fn parse(path: &str) -> Result<(), Failed> {
    let page = Page::read(path)?;
    let scratch = Scratch::empty()?;
    for command in code_spans(&page.prose()) {
        let output = match command.split(' ').next() {
            Some("pagetoll") => {
                let known = command.replace(ROUTE, "unmap");
                scratch.shell(scratch.path(), &format!("{known} --help"), &[])?
            }
            Some("make") if command.contains(' ') => {
                scratch.shell(&root(), &command, &[("MAKEFLAGS", "n")])?
            }
            _ => continue,
        };
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{path}: `{command}`: {stderr}").into());
        }
    }
    Ok(())
}
