//! A page of documentation: its fenced blocks, its running text, its headings.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

/// Folders that hold no sources.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Markdown file and its text.
pub(crate) struct Page {
    /// Relative to the root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Fence {
    /// Line of the opening fence, from 1.
    pub(crate) line: usize,
    /// Info string after the opening fence.
    pub(crate) info: String,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Result<Self, Failed> {
        let text =
            fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        Ok(Self {
            path: path.to_owned(),
            text,
        })
    }

    /// All pages of the repository, by path.
    pub(crate) fn all() -> Result<Vec<Self>, Failed> {
        let pages = files("", "md")?.into_iter();
        let own = pages.filter(|path| !path.contains("/tests/data/sample-"));
        own.map(|path| Self::read(&path)).collect()
    }

    /// True for a page of users, whose commands are run.
    pub(crate) fn has_commands(&self) -> bool {
        self.path == "README.md" || self.path.starts_with("docs/")
    }

    pub(crate) fn fences(&self) -> Vec<Fence> {
        let mut fences: Vec<Fence> = Vec::new();
        let mut open = false;
        for (index, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("```"), open) {
                (Some(_), true) => open = false,
                (Some(info), false) => {
                    open = true;
                    fences.push(Fence {
                        line: index + 1,
                        info: info.to_owned(),
                        body: String::new(),
                    });
                }
                (None, true) => {
                    let body = &mut fences.last_mut().expect("a fence is open").body;
                    body.push_str(line);
                    body.push('\n');
                }
                (None, false) => {}
            }
        }
        fences
    }

    /// The text outside of fenced blocks.
    pub(crate) fn prose(&self) -> String {
        let mut open = false;
        let outside = |line: &&str| {
            let is_fence = line.starts_with("```");
            open ^= is_fence;
            !open && !is_fence
        };
        self.text
            .lines()
            .filter(outside)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Anchors of the headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| slug(line.trim_start_matches('#').trim()))
            .collect()
    }
}

/// The contents of code spans, line breaks as spaces.
pub(crate) fn code_spans(prose: &str) -> Vec<String> {
    let spans = prose.split('`').skip(1).step_by(2);
    let joined = |span: &str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    spans.map(joined).collect()
}

/// The text without its code spans.
pub(crate) fn without_code(prose: &str) -> String {
    prose.split('`').step_by(2).collect::<Vec<_>>().join("")
}

fn slug(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| kept(*c))
        .collect::<String>();
    kept.replace(' ', "-")
}

/// Files below a folder of the repository whose names end with `.extension`, as sorted paths relative to the root.
pub(crate) fn files(folder: &str, extension: &str) -> Result<Vec<String>, Failed> {
    let mut paths = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match folder.as_str() {
                "" => name.clone(),
                folder => format!("{folder}/{name}"),
            };
            if entry.file_type()?.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if Path::new(&name).extension() == Some(extension.as_ref()) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}
