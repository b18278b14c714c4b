//! Fenced blocks `sh`: scripts, how they are run, and what they have to print.

use std::process::Output;

use libtest_mimic::Failed;

use super::kernel_tree;
use super::page::{Fence, Page, root};
use super::scratch::Scratch;

/// Place where a snippet runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// In a scratch folder, anywhere.
    Anywhere,
    /// In a scratch folder, on a host with KVM and userfaultfd.
    Host,
    /// In a kernel's build tree.
    Tree,
    /// In this repository, by a make that runs nothing: targets have to exist.
    Make,
}

/// A script of a page.
pub(crate) struct Snippet {
    page: String,
    line: usize,
    script: String,
    pub(crate) setting: Setting,
    pub(crate) is_long: bool,
    exit: i32,
    /// Lines that it prints, in this order, others between them.
    printed: Vec<String>,
}

impl Snippet {
    /// The scripts of a page, each with the output that follows it.
    pub(crate) fn all_of(page: &Page) -> Result<Vec<Self>, Failed> {
        let mut snippets: Vec<Self> = Vec::new();
        for fence in page.fences() {
            let place = format!("{}:{}", page.path, fence.line);
            match fence.info.split(' ').collect::<Vec<_>>().as_slice() {
                // Python's are run by the package's tests.
                ["sh", "gate" | "guest"]
                | ["sh", "guest", "counted" | "flushes"]
                | ["text" | "toml" | "yaml" | "json" | "python"] => {}
                ["sh", words @ ..] => snippets.push(Self::new(&page.path, &fence, words)?),
                ["text", "output"] => {
                    let before = snippets
                        .last_mut()
                        .ok_or(format!("{place}: output of no script"))?;
                    before.printed.extend(fence.body.lines().map(str::to_owned));
                }
                _ => return Err(format!("{place}: unknown kind of block: {:?}", fence.info).into()),
            }
        }
        Ok(snippets)
    }

    fn new(page: &str, fence: &Fence, words: &[&str]) -> Result<Self, Failed> {
        let mut snippet = Self {
            page: page.to_owned(),
            line: fence.line,
            script: fence.body.clone(),
            setting: Setting::Anywhere,
            is_long: false,
            exit: 0,
            printed: Vec::new(),
        };
        for word in words {
            match (*word, word.strip_prefix("exit=")) {
                ("long", _) => snippet.is_long = true,
                ("host", _) => snippet.setting = Setting::Host,
                ("tree", _) => snippet.setting = Setting::Tree,
                ("make", _) => snippet.setting = Setting::Make,
                (_, Some(code)) => snippet.exit = code.parse()?,
                _ => return Err(format!("{page}:{}: unknown word: {word}", fence.line).into()),
            }
        }
        Ok(snippet)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    pub(crate) fn run(&self) -> Result<(), Failed> {
        let output = self.output()?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(self.exit) {
            let expected = self.exit;
            return Err(format!(
                "{}, expected exit {expected}:\n{}{stderr}",
                output.status, self.script
            )
            .into());
        }
        let mut lines = stdout.lines().map(str::trim_end);
        for expected in &self.printed {
            if !lines.any(|line| line == expected.trim_end()) {
                return Err(format!(
                    "no line {expected:?}, here or after the one before it, in\n{stdout}"
                )
                .into());
            }
        }
        Ok(())
    }

    fn output(&self) -> Result<Output, Failed> {
        match self.setting {
            Setting::Anywhere | Setting::Host => {
                let scratch = Scratch::filled()?;
                scratch.shell(scratch.path(), &self.script, &[])
            }
            Setting::Tree => {
                let scratch = Scratch::empty()?;
                let tree = kernel_tree::make(&scratch)?;
                scratch.shell(&tree, &self.script, &[])
            }
            Setting::Make => Scratch::empty()?.shell(&root(), &self.script, &[("MAKEFLAGS", "n")]),
        }
    }
}
