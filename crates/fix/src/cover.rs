//! Cover letter of a series: its README's sections on the problem, the idea and the gain, and how to repeat the
//! figures.

use crate::catalogue::{Bench, Fix, Patch, Program, Series};
use crate::spec::PREFIX;

/// Titles of the README's sections in a cover letter, by their beginnings; the section on the series follows them.
const SECTIONS: [&str; 3] = ["The problem", "The idea", "What it gives"];
/// The first line of a mail from `git format-patch --zero-commit`.
const FIRST: &str = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001";

/// The cover letter of a series, as `git format-patch --cover-letter` names and writes it.
#[must_use]
pub fn letter(fix: &Fix, series: &Series) -> String {
    let patches = fix.patches(series);
    let head = |name: &str| {
        let first = patches.first().map_or("", |patch| patch.text);
        let line = first.lines().find(|line| line.starts_with(name));
        line.unwrap_or_default().to_owned()
    };
    let mut lines = vec![
        FIRST.to_owned(),
        head("From: "),
        head("Date: "),
        format!("Subject: [PATCH 0/{}] {}", patches.len(), fix.summary),
        String::new(),
    ];
    let series_title = format!("{} {}", fix.program, series.version);
    for title in SECTIONS.into_iter().chain([series_title.as_str()]) {
        lines.extend(section(fix.readme, title));
    }
    lines.extend(ending(fix, series));
    lines.push(String::new());
    lines.extend(patches.iter().map(|patch| format!("  {}", subject(patch))));
    lines.join("\n") + "\n"
}

/// A section with its title underlined and an empty line at its end.
fn section(readme: &str, title: &str) -> Vec<String> {
    let begins = |line: &&str| {
        line.strip_prefix("## ")
            .is_some_and(|heading| heading.starts_with(title))
    };
    let mut lines = readme.lines().skip_while(|line| !begins(line));
    let Some(heading) = lines.next().and_then(|line| line.strip_prefix("## ")) else {
        return Vec::new();
    };
    let body = lines.take_while(|line| !line.starts_with("## "));
    let text = body.collect::<Vec<_>>().join("\n");
    vec![
        heading.to_owned(),
        "-".repeat(heading.len()),
        text.trim().to_owned(),
        String::new(),
    ]
}

fn ending(fix: &Fix, series: &Series) -> Vec<String> {
    let Fix { name, program, .. } = fix;
    let version = &series.version;
    let bill = match (program, fix.bench) {
        (Program::Xen, _) => format!("bill unmap --xen {PREFIX}{name}@{version}"),
        (_, Bench::KvmHost) => format!("bill demand --on lab --kernel {PREFIX}{name}@{version}"),
        (_, Bench::XenDom0) => {
            format!("bill unmap --kernel {PREFIX}none@{version} --kernel {PREFIX}{name}@{version}")
        }
    };
    let after = fix.after.iter().map(|before| {
        format!("It comes after {before}: pagetoll fix export {before}@{version} DIR")
    });
    let mut lines = vec![format!(
        "It applies to {program} {version}, Debian's source."
    )];
    lines.extend(after);
    lines.extend([
        format!("To repeat the figures: pagetoll {bill}"),
        format!("To repeat the checks:  pagetoll fix check {name}@{version}"),
        "No patch is signed off: who sends them certifies the DCO, and signs.".to_owned(),
    ]);
    lines
}

/// A patch's title, whose line mails fold.
fn subject(patch: &Patch) -> String {
    let mut lines = patch
        .text
        .lines()
        .skip_while(|line| !line.starts_with("Subject: "));
    let first = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("Subject: ");
    let folded = lines.take_while(|line| line.starts_with(' '));
    folded.fold(first.to_owned(), |title, line| title + line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::all;

    #[test]
    fn every_series_has_a_letter_with_a_table_and_its_patches() {
        for fix in all() {
            for series in &fix.series {
                let letter = letter(fix, series);
                for title in SECTIONS {
                    assert!(
                        letter.contains(&format!("\n{title}")),
                        "{}: {title}",
                        fix.name
                    );
                }
                let numbered = letter.lines().filter(|line| line.starts_with("  [PATCH"));
                assert_eq!(numbered.count(), fix.patches(series).len(), "{letter}");
                assert!(letter.contains("|---|"), "{letter}");
                assert!(letter.contains("\nFrom: pagetoll developers <"), "{letter}");
            }
        }
    }

    #[test]
    fn a_folded_title_is_whole() {
        let patch = Patch {
            file: "x",
            text: "From: a\nSubject: [PATCH] x86: Do one\n thing\nMIME-Version: 1.0\n\n b\n",
        };
        assert_eq!(subject(&patch), "[PATCH] x86: Do one thing");
    }

    #[test]
    fn a_section_ends_at_the_next() {
        let found = section("# t\n\n## The idea\n\nbody\n\n## Other\nx\n", "The idea");
        assert_eq!(found.join("\n"), "The idea\n--------\nbody\n");
        assert!(section("# t\n", "The idea").is_empty());
    }
}
