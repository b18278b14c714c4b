//! Traces that a harmed run could leave: processes, files, cache entries, hugepages, mounts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::run::{Run, Runs, entries};

/// Time limit for killed processes to disappear on a busy machine.
pub(crate) const VANISH: Duration = Duration::from_secs(5);

/// Problems, with the number of the attempt after which each was seen.
#[derive(Default)]
pub(crate) struct Violations(Vec<String>);

impl Violations {
    pub(crate) fn add(&mut self, number: u64, run: &str, found: impl IntoIterator<Item = String>) {
        for text in found {
            let violation = format!("{number}, {run}: {text}");
            println!("violation: {violation}");
            self.0.push(violation);
        }
    }

    /// Adds problems of the next runs of those that were harmed, and of all caches.
    pub(crate) fn add_next_runs<'a>(
        &mut self,
        number: u64,
        harmed: impl IntoIterator<Item = &'a Run>,
        runs: &Runs,
    ) {
        let by_name: BTreeMap<_, _> = harmed.into_iter().map(|run| (run.name, run)).collect();
        for run in by_name.values() {
            self.add(number, run.name, run.differs());
        }
        self.add(number, "cache", runs.leftovers());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// State that must not change.
pub(crate) struct State<'a> {
    run: &'a Run,
    entries: BTreeMap<PathBuf, Entry>,
    output: Option<Vec<u8>>,
    host: String,
}

/// Enough of a file to see that it was touched.
#[derive(PartialEq)]
struct Entry {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl<'a> State<'a> {
    pub(crate) fn new(run: &'a Run) -> Self {
        Self {
            run,
            entries: cached(&run.cache),
            output: fs::read(&run.output).ok(),
            host: host(),
        }
    }

    pub(crate) fn violated(&self) -> Vec<String> {
        let mut found = Vec::new();
        let now = cached(&self.run.cache);
        for (path, entry) in &self.entries {
            if now.get(path) != Some(entry) {
                found.push(format!("{} has changed or is gone", path.display()));
            }
        }
        found.extend(self.lost_output());
        if host() != self.host {
            found.push(format!("the host was {} and is {}", self.host, host()));
        }
        found
    }

    /// The older bill is there whole, under its name or as `.old`, and whatever has its name is a whole bill.
    fn lost_output(&self) -> Option<String> {
        let old = self.run.output.with_extension("json.old");
        let whole = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok();
        let before = self.output.as_ref()?;
        let there = fs::read(&self.run.output).ok();
        let kept = there.as_ref() == Some(before) || fs::read(&old).ok().as_ref() == Some(before);
        let half = there.is_some() && whole(&self.run.output).is_none();
        // A run that ended has two bills: its own, and the older one.
        (half || !kept).then(|| format!("{} is lost or half written", self.run.output.display()))
    }
}

/// Every file of a cache but locks, what is in the making, and the folder that apt works in.
fn cached(cache: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut files = BTreeMap::new();
    let mut folders: Vec<PathBuf> = entries(cache)
        .into_iter()
        .filter(|path| {
            !["tmp", "locks", "logs", "apt"]
                .iter()
                .any(|name| path.ends_with(name))
        })
        .collect();
    while let Some(path) = folders.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if meta.is_dir() {
            folders.extend(entries(&path));
        } else {
            // The time of a manifest is that of the entry's last use.
            let modified = match path.starts_with(cache.join("manifests")) {
                true => (0, 0),
                false => (meta.mtime(), meta.mtime_nsec()),
            };
            files.insert(
                path,
                Entry {
                    inode: meta.ino(),
                    size: meta.size(),
                    modified,
                },
            );
        }
    }
    files
}

/// Hugepages and mounts, which no run may leave changed.
fn host() -> String {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let reserved: Vec<_> = meminfo
        .lines()
        .filter(|line| line.starts_with("HugePages"))
        .collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .unwrap_or_default()
        .lines()
        .count();
    format!("{reserved:?}, {mounts} mounts")
}
