//! Cover letter of a series: the text that its folder holds for it, how to repeat its figures, and what
//! `git format-patch --cover-letter` adds. All of it is mailed.

use crate::catalogue::{self, Bench, Fix, Patch, Program, Series};
use crate::spec::PREFIX;

/// The first line of a mail from `git format-patch --zero-commit`.
const FIRST: &str = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001";
/// Most characters in a line of a message (Linux, `Documentation/process/submitting-patches.rst`).
const COLUMNS: usize = 75;
/// Columns that a list of patches indents its titles by.
const INDENT: usize = 2;

/// The cover letter of a series, as `git format-patch --cover-letter` names and writes it.
#[must_use]
pub fn letter(fix: &Fix, series: &Series) -> String {
    let patches = fix.patches(series);
    let head = |name: &str| {
        let first = patches.first().map_or("", |patch| patch.text);
        let line = first.lines().find(|line| line.starts_with(name));
        line.unwrap_or_default().to_owned()
    };
    let (title, body) = fix.cover(series).split_once("\n\n").unwrap_or_default();
    let mut lines = vec![
        FIRST.to_owned(),
        head("From: "),
        head("Date: "),
        folded(
            &format!("Subject: [PATCH 0/{}] {title}", patches.len()),
            " ",
        ),
        String::new(),
        body.trim_end().to_owned(),
        String::new(),
    ];
    lines.extend(repeat(fix, series));
    lines.extend(before(fix, series));
    lines.push(format!("Patches ({}):", patches.len()));
    lines.extend(patches.iter().map(listed));
    lines.extend([
        String::new(),
        fix.diffstat(series).trim_end().to_owned(),
        String::new(),
        base(series),
    ]);
    lines.join("\n") + "\n"
}

/// A line, as several where it is long; the second and later ones are indented.
fn folded(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines
            .last_mut()
            .filter(|line| line.len() + 1 + word.len() <= COLUMNS - INDENT);
        match line {
            Some(line) if line.is_empty() => word.clone_into(line),
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Commands that repeat figures and tests.
fn repeat(fix: &Fix, series: &Series) -> Vec<String> {
    let name = format!("{}@{}", fix.name, series.version);
    let none = format!("none@{}", series.version);
    let side_by_side = |route| {
        format!("  pagetoll bill {route} --kernel {PREFIX}{none} \\\n    --kernel {PREFIX}{name}")
    };
    let bills = match (fix.program, fix.bench) {
        (Program::Xen, _) => vec![format!("  pagetoll bill unmap --xen {PREFIX}{name}")],
        (Program::Linux, Bench::KvmHost) => vec![side_by_side("demand --on lab")],
        (Program::Linux, Bench::XenDom0) => vec![side_by_side("unmap")],
        // A bill of pin takes images, and no two of one version.
        (Program::Linux, Bench::VfioHost) => vec![
            format!("  pagetoll fix build {none} --vfio"),
            format!("  pagetoll fix build {name}"),
            "  pagetoll bill pin --on lab --kernel IMAGE      (of each)".to_owned(),
        ],
    };
    let mut lines = vec![
        "To repeat the figures and the tests:".to_owned(),
        String::new(),
    ];
    lines.extend(bills);
    lines.extend([format!("  pagetoll fix check {name}"), String::new()]);
    lines
}

/// The patches that have to be applied before.
fn before(fix: &Fix, series: &Series) -> Vec<String> {
    // A test looks all of them up.
    let fixes = fix
        .after
        .iter()
        .filter_map(|name| catalogue::find(name).ok());
    let titles: Vec<_> = fixes
        .flat_map(|fix| fix.stack(series))
        .map(|patch| listed(&patch))
        .collect();
    if titles.is_empty() {
        return titles;
    }
    let mut lines = vec!["It applies on top of:".to_owned(), String::new()];
    lines.extend(titles);
    lines.push(String::new());
    lines
}

/// The commit that the patches apply to: its hash where that is known, else its tag.
fn base(series: &Series) -> String {
    let is_hash = series.base.len() == 40 && series.base.bytes().all(|b| b.is_ascii_hexdigit());
    let name = if is_hash { "base-commit" } else { "base" };
    format!("{name}: {}", series.base)
}

/// A patch's subject, whose line mails fold.
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

/// A patch's subject without its number, in a list.
fn listed(patch: &Patch) -> String {
    let subject = subject(patch);
    let title = subject
        .split_once("] ")
        .map_or(&*subject, |(_, title)| title);
    format!("  {}", folded(title, "    "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalogue::all;
    use crate::patch;

    fn every_letter() -> impl Iterator<Item = (&'static Fix, &'static Series, String)> {
        all().iter().flat_map(|fix| {
            let letter = move |series| (fix, series, letter(fix, series));
            fix.series.iter().map(letter)
        })
    }

    /// Names of the files that a series changes, without their folders.
    fn changed(fix: &Fix, series: &Series) -> BTreeSet<String> {
        let patches = fix.patches(series).into_iter();
        let files = patches.flat_map(|patch| patch::parse(patch.text).unwrap());
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        files.map(|file| name(&file.path)).collect()
    }

    /// The part of a README that speaks of one series: its section, else all that is not another's.
    fn readme_of(fix: &Fix, series: &Series) -> String {
        let title = |series: &Series| format!("{} {}", fix.program, series.version);
        let sections: Vec<_> = fix.readme.split("\n## ").collect();
        let is_of = |section: &&&str, series: &Series| {
            section
                .lines()
                .next()
                .is_some_and(|line| line == title(series))
        };
        if let Some(own) = sections.iter().find(|section| is_of(section, series)) {
            return (*own).to_owned();
        }
        let others = |section: &&&str| fix.series.iter().any(|series| is_of(section, series));
        let rest: Vec<_> = sections
            .iter()
            .filter(|section| !others(section))
            .copied()
            .collect();
        rest.join("\n")
    }

    #[test]
    fn a_letter_is_plain_text_that_fits_a_mail() {
        for (fix, series, letter) in every_letter() {
            let name = format!("{}@{}", fix.name, series.version);
            for line in letter.lines().skip(1) {
                assert!(line.is_ascii() && line.len() <= COLUMNS, "{name}: {line}");
                for mark in ["|--", "](", "`", "**"] {
                    assert!(
                        !line.contains(mark) || line.contains(" | "),
                        "{name}: {line}"
                    );
                }
            }
            assert!(letter.contains("\nFrom: pagetoll developers <"), "{name}");
        }
    }

    #[test]
    fn a_subject_counts_the_patches_and_names_the_subsystem() {
        for (fix, series, letter) in every_letter() {
            let letter = letter.replace("\n ", " ");
            let subject = letter
                .lines()
                .find_map(|line| line.strip_prefix("Subject: "));
            let count = format!("[PATCH 0/{}] ", fix.patches(series).len());
            let title = subject.and_then(|subject| subject.strip_prefix(&count));
            let title = title.unwrap_or_else(|| panic!("{letter}"));
            let (prefix, rest) = title.split_once(": ").unwrap();
            assert!(prefix.len() < 16 && !rest.is_empty(), "{title}");
            let listed: Vec<_> = fix.patches(series).iter().map(listed).collect();
            let list = format!(" Patches ({}):\n{}", listed.len(), listed.join("\n"));
            assert!(
                letter.contains(list.replace("\n ", " ").trim_start()),
                "{letter}"
            );
        }
    }

    #[test]
    fn a_letter_speaks_of_its_own_series_alone() {
        for (fix, series, letter) in every_letter() {
            let own = changed(fix, series);
            for other in &fix.series {
                for file in changed(fix, other).difference(&own) {
                    assert!(
                        !letter.contains(file.as_str()),
                        "{}: {file}",
                        series.version
                    );
                }
            }
        }
    }

    #[test]
    fn every_figure_of_a_letter_is_one_of_its_series() {
        for (fix, series, letter) in every_letter() {
            let readme = readme_of(fix, series);
            let body = fix.cover(series);
            let is_figure = |word: &&str| {
                let parts: Vec<_> = word.split('.').collect();
                parts.len() == 2
                    && parts
                        .iter()
                        .all(|part| part.bytes().all(|b| b.is_ascii_digit()))
            };
            let words = body
                .split([' ', '\n', '+', ',', ':', ';'])
                .map(|word| word.trim_start_matches('-'));
            let figures: Vec<_> = words
                .filter(|word| !word.is_empty())
                .filter(is_figure)
                .collect();
            let is_billed = !body.contains("was not measured");
            assert_eq!(
                figures.len() > 4,
                is_billed,
                "{}@{}",
                fix.name,
                series.version
            );
            for figure in figures {
                assert!(
                    readme.contains(figure),
                    "{}@{}: {figure}",
                    fix.name,
                    series.version
                );
            }
            assert!(letter.contains(body.trim_end().split_once("\n\n").unwrap().1));
        }
    }

    #[test]
    fn a_diffstat_is_that_of_the_patches() {
        for (fix, series, letter) in every_letter() {
            let stat = fix.diffstat(series);
            let files: BTreeSet<_> = stat
                .lines()
                .filter_map(|line| line.split_once(" | "))
                .map(|(path, _)| path.trim().rsplit('/').next().unwrap().to_owned())
                .collect();
            assert_eq!(
                files,
                changed(fix, series),
                "{}@{}",
                fix.name,
                series.version
            );
            let total = stat.lines().last().unwrap();
            let count = |unit: &str| -> i64 {
                let found = total.split(", ").find(|part| part.contains(unit));
                found.map_or(0, |part| {
                    part.split_whitespace().next().unwrap().parse().unwrap()
                })
            };
            let lines = |sign: &str, head: &str| -> i64 {
                let patches = fix.patches(series).into_iter();
                let lines = patches.flat_map(|patch| {
                    let diff = patch.text.split_once("\ndiff --git").unwrap().1;
                    diff.lines()
                        .filter(|line| line.starts_with(sign) && !line.starts_with(head))
                        .collect::<Vec<_>>()
                });
                i64::try_from(lines.count()).unwrap()
            };
            let net = lines("+", "+++ ") - lines("-", "--- ");
            assert_eq!(
                count("insertion") - count("deletion"),
                net,
                "{}@{}",
                fix.name,
                series.version
            );
            assert!(letter.contains(total));
        }
    }

    #[test]
    fn a_letter_ends_with_its_base() {
        for (_, series, letter) in every_letter() {
            let last = letter.lines().last().unwrap();
            let (name, base) = last.split_once(": ").unwrap();
            match name {
                "base-commit" => assert_eq!(base.len(), 40),
                "base" => assert!(base.starts_with(&format!("v{}.", series.version)), "{last}"),
                _ => panic!("{last}"),
            }
        }
    }

    #[test]
    fn nothing_is_mailed_that_is_for_the_sender() {
        for (fix, series, letter) in every_letter() {
            for word in [
                "signed off",
                "Signed-off-by",
                "DCO",
                "Debian's source",
                "export",
                "\n@",
            ] {
                assert!(
                    !letter.contains(word),
                    "{}@{}: {word}",
                    fix.name,
                    series.version
                );
            }
        }
    }

    #[test]
    fn a_series_names_what_it_applies_on_top_of() {
        let fix = catalogue::find("xen-pv-get-and-clear").unwrap();
        for series in &fix.series {
            let title = "\n  x86/xen: Store directly into page tables that are not pinned\n";
            assert!(letter(fix, series).contains(title));
        }
    }

    #[test]
    fn long_headers_are_folded_between_words() {
        assert_eq!(folded("Subject: short", " "), "Subject: short");
        let long = format!("Subject: {}", ["word"; 30].join(" "));
        let text = folded(&long, " ");
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        assert_eq!(text.replace("\n ", " "), long);
    }

    #[test]
    fn a_folded_title_is_whole() {
        let patch = Patch {
            file: "x",
            text: "From: a\nSubject: [PATCH] x86: Do one\n thing\nMIME-Version: 1.0\n\n b\n",
        };
        assert_eq!(subject(&patch), "[PATCH] x86: Do one thing");
        assert_eq!(listed(&patch), "  x86: Do one thing");
    }
}
