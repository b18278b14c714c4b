//! Unified diffs, as `git format-patch` writes them: read, and applied to text.
//!
//! Every line that a hunk names must stand in the file exactly; where it does not at the line that the hunk says, the
//! nearest place where it does is taken. No fuzz, no renames, no deletions, no binary patches: the series have none.
//! Format: git-diff(1), "Generating patch text with -p".

use std::fmt;

use pagetoll_units::budget::check_text;
use thiserror::Error;

/// A patch that could not be read or applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct PatchError {
    /// The file that the patch is for.
    pub file: String,
    /// The hunk, and what is wrong with it.
    pub problem: String,
}

/// Change of one file by a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The path below the root of the tree.
    pub path: String,
    /// True if the patch creates the file.
    pub creates: bool,
    hunks: Vec<Hunk>,
}

/// A run of lines and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// Number in the file's part of the patch, from 1.
    number: usize,
    /// First line of the old text, from 1; 0 for a new file.
    at: usize,
    before: Vec<String>,
    after: Vec<String>,
}

impl fmt::Display for Hunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hunk {} (line {})", self.number, self.at)
    }
}

/// Parses all files of a patch; lines before the first file (the mail's head) are skipped.
///
/// # Errors
/// A hunk that is cut short or whose head cannot be read.
pub fn parse(text: &str) -> Result<Vec<FilePatch>, PatchError> {
    check_text(text).map_err(|error| PatchError {
        file: "the patch".to_owned(),
        problem: error.to_string(),
    })?;
    let mut lines = text.lines().peekable();
    let mut files: Vec<FilePatch> = Vec::new();
    let mut creates = false;
    while let Some(line) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            creates = old == "/dev/null";
        } else if let Some(path) = line.strip_prefix("+++ b/") {
            files.push(FilePatch {
                path: path.to_owned(),
                creates,
                hunks: Vec::new(),
            });
        } else if let (Some(head), Some(file)) = (line.strip_prefix("@@ -"), files.last_mut()) {
            let hunk = hunk(head, file, &mut lines)?;
            file.hunks.push(hunk);
        }
    }
    Ok(files)
}

fn hunk<'a>(
    head: &str,
    file: &FilePatch,
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<Hunk, PatchError> {
    let number = file.hunks.len() + 1;
    let refuse = |problem: &str| PatchError {
        file: file.path.clone(),
        problem: format!("hunk {number}: {problem}"),
    };
    let [old, new] = ranges(head).ok_or_else(|| refuse("its head cannot be read"))?;
    let mut hunk = Hunk {
        number,
        at: old.0,
        before: Vec::new(),
        after: Vec::new(),
    };
    while hunk.before.len() < old.1 || hunk.after.len() < new.1 {
        let line = lines.next().ok_or_else(|| refuse("it is cut short"))?;
        // Mailers strip a blank that stands alone.
        let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        match kind {
            " " => {
                hunk.before.push(text.to_owned());
                hunk.after.push(text.to_owned());
            }
            "-" => hunk.before.push(text.to_owned()),
            "+" => hunk.after.push(text.to_owned()),
            _ => return Err(refuse("it is cut short")),
        }
    }
    Ok(hunk)
}

/// First line and number of lines, of the old text and of the new: `12,3 +12,5 @@ context`.
fn ranges(head: &str) -> Option<[(usize, usize); 2]> {
    let (ranges, _context) = head.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    Some([range(old)?, range(new)?])
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (at, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((at.parse().ok()?, count.parse().ok()?))
}

impl FilePatch {
    /// Applies the patch to the file's text; `None` is an absent file.
    ///
    /// # Errors
    /// The first hunk that does not apply, with the line that was expected and what stands there instead.
    pub fn apply(&self, text: Option<&str>) -> Result<String, PatchError> {
        let refuse = |problem: String| PatchError {
            file: self.path.clone(),
            problem,
        };
        let text = match (text, self.creates) {
            (Some(_), true) => return Err(refuse("the patch makes it, but it is there".into())),
            (None, false) => return Err(refuse("is not there".into())),
            (text, _) => text.unwrap_or_default(),
        };
        let old: Vec<&str> = text.lines().collect();
        let mut new: Vec<&str> = Vec::new();
        let mut done = 0;
        for hunk in &self.hunks {
            let at = hunk.place(&old, done).map_err(refuse)?;
            new.extend(&old[done..at]);
            new.extend(hunk.after.iter().map(String::as_str));
            done = at + hunk.before.len();
        }
        new.extend(&old[done..]);
        Ok(new.into_iter().map(|line| format!("{line}\n")).collect())
    }
}

impl Hunk {
    /// Line at which the old text is found, not before `from`: the nearest one to the line in the hunk's head.
    fn place(&self, old: &[&str], from: usize) -> Result<usize, String> {
        let wanted = self.at.saturating_sub(usize::from(!self.before.is_empty()));
        let last = old.len().checked_sub(self.before.len());
        let places = last.map_or(0..0, |last| from..last + 1);
        let fits = |at: &usize| {
            old[*at..]
                .iter()
                .zip(&self.before)
                .all(|(old, wanted)| old == wanted)
        };
        places
            .filter(fits)
            .min_by_key(|at| at.abs_diff(wanted))
            .ok_or_else(|| self.misfit(old, wanted))
    }

    fn misfit(&self, old: &[&str], wanted: usize) -> String {
        let pairs = self.before.iter().enumerate();
        let first = pairs
            .map(|(index, line)| (line, old.get(wanted + index)))
            .find(|(expected, found)| found.is_none_or(|found| found != expected));
        let (expected, found) = first.unwrap_or((&self.before[0], None));
        let found = found.map_or("the end of the file".to_owned(), |line| {
            format!("{:?}", line.trim())
        });
        format!(
            "{self} does not apply: expected {:?}, found {found}",
            expected.trim()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
From 0 Mon Sep 17 00:00:00 2001
Subject: [PATCH] x

--- is no file here
---
 a.c | 2 +-

diff --git a/a.c b/a.c
--- a/a.c
+++ b/a.c
@@ -2,3 +2,3 @@ context
 two
-three
+THREE
 four
@@ -6 +6,2 @@
 six
+six and a half
diff --git a/new.c b/new.c
new file mode 100644
--- /dev/null
+++ b/new.c
@@ -0,0 +1,2 @@
+first
+second
-- 
2.39
";
    const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

    fn patches() -> Vec<FilePatch> {
        parse(PATCH).unwrap()
    }

    #[test]
    fn hunks_are_applied_and_files_are_made() {
        let patches = patches();
        let paths: Vec<_> = patches.iter().map(|patch| patch.path.as_str()).collect();
        assert_eq!(paths, ["a.c", "new.c"]);
        assert_eq!(
            patches[0].apply(Some(OLD)).unwrap(),
            "one\ntwo\nTHREE\nfour\nfive\nsix\nsix and a half\n"
        );
        assert_eq!(patches[1].apply(None).unwrap(), "first\nsecond\n");
    }

    #[test]
    fn lines_that_moved_are_found() {
        let moved = format!("new\nnew\n{OLD}");
        let applied = patches()[0].apply(Some(&moved)).unwrap();
        assert!(
            applied.starts_with("new\nnew\none\ntwo\nTHREE\n"),
            "{applied}"
        );
    }

    #[test]
    fn a_hunk_that_does_not_apply_is_reported_with_file_and_line() {
        let other = OLD.replace("three", "3");
        let error = patches()[0].apply(Some(&other)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.c: hunk 1 (line 2) does not apply: expected \"three\", found \"3\""
        );
        let short = patches()[0].apply(Some("one\n")).unwrap_err();
        assert!(short.problem.contains("the end of the file"), "{short}");
        assert!(patches()[0].apply(None).is_err());
        assert!(patches()[1].apply(Some("")).is_err());
    }

    #[test]
    fn a_patch_that_is_cut_short_is_refused() {
        let cut = PATCH.split(" four").next().unwrap();
        let error = parse(cut).unwrap_err();
        assert_eq!(error.to_string(), "a.c: hunk 1: it is cut short");
        assert!(parse("+++ b/x\n@@ -x +1 @@\n").is_err());
    }
}
