//! Links, anchors, and paths of the checklists.

use libtest_mimic::{Failed, Trial};

use super::page::{Page, code_spans, root, without_code};

/// Checks every relative link of a page.
pub(crate) fn trial(page: &Page) -> Trial {
    let path = page.path.clone();
    Trial::test(format!("links of {path}"), move || {
        let page = Page::read(&path)?;
        let broken: Vec<_> = links(&page)
            .into_iter()
            .filter_map(|link| broken(&page, &link))
            .collect();
        none(broken)
    })
}

/// Paths in code spans of ARCHITECTURE.md are those of this repository.
pub(crate) fn paths_exist() -> Result<(), Failed> {
    let page = Page::read("ARCHITECTURE.md")?;
    let is_path =
        |span: &String| span.contains('/') && !span.contains(' ') && !span.starts_with('/');
    let missing = code_spans(&page.prose())
        .into_iter()
        .filter(is_path)
        .filter(|path| !root().join(path).exists());
    none(
        missing
            .map(|path| format!("{path}: no such path"))
            .collect(),
    )
}

fn none(problems: Vec<String>) -> Result<(), Failed> {
    match problems.as_slice() {
        [] => Ok(()),
        problems => Err(problems.join("\n").into()),
    }
}

/// Targets of inline links that are no URLs.
fn links(page: &Page) -> Vec<String> {
    let prose = without_code(&page.prose());
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://"));
    relative.map(str::to_owned).collect()
}

fn broken(page: &Page, link: &str) -> Option<String> {
    let (path, anchor) = link
        .split_once('#')
        .map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = if path.is_empty() {
        page.path.clone()
    } else {
        joined(folder, path)
    };
    if !root().join(&target).exists() {
        return Some(format!("{}: link to {link}: no {target}", page.path));
    }
    let anchor = anchor?;
    let anchors = Page::read(&target).ok()?.anchors();
    let is_there = anchors.iter().any(|known| known == anchor);
    (!is_there).then(|| {
        format!(
            "{}: link to {link}: no heading {anchor} in {anchors:?}",
            page.path
        )
    })
}

/// Resolves `..` textually, so that the result is relative to the root again.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            other => parts.push(other),
        }
    }
    parts.join("/")
}
