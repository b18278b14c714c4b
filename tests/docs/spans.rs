//! Commands in running text: they have to parse.

use libtest_mimic::{Failed, Trial};

use super::page::{Page, code_spans};
use super::scratch::Scratch;

/// Words that stand for a value which is checked when it is read.
const PLACEHOLDERS: [(&str, &str); 1] = [("ROUTE", "unmap")];

pub(crate) fn trial(page: &Page) -> Trial {
    let path = page.path.clone();
    Trial::test(format!("commands in the text of {path}"), move || {
        parse(&path)
    })
}

fn parse(path: &str) -> Result<(), Failed> {
    let page = Page::read(path)?;
    let scratch = Scratch::empty()?;
    let spans = code_spans(&page.prose()).into_iter();
    for command in spans.filter(|span| span.starts_with("pagetoll ")) {
        let mut known = command.clone();
        for (placeholder, value) in PLACEHOLDERS {
            known = known.replace(placeholder, value);
        }
        let output = scratch.shell(scratch.path(), &format!("{known} --help"), &[])?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{path}: `{command}` does not parse: {stderr}").into());
        }
    }
    Ok(())
}
