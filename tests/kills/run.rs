//! The runs that are killed: each a command that writes a bill over an older one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A longer run is killed within its beginning: that is where files are made.
const LONGEST: Duration = Duration::from_secs(4);

/// What a run does when it is left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It ends with counted or modelled figures, the same to the digit each time.
    Repeats,
    /// It ends with measured figures.
    Varies,
    /// It takes many minutes: it is never left alone, and has a cache to itself.
    TooFar,
}

/// A command, and what it leaves when it ends by itself.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    arguments: Vec<String>,
    pub(crate) output: PathBuf,
    pub(crate) cache: PathBuf,
    temporary: PathBuf,
    /// How long it took, at most [`LONGEST`].
    pub(crate) length: Duration,
    ending: Ending,
}

/// All runs that this machine can do.
pub(crate) struct Runs {
    pub(crate) all: Vec<Run>,
    /// Why the others cannot be done.
    pub(crate) skipped: Vec<String>,
    folder: tempfile::TempDir,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = Self {
            all: Vec::new(),
            skipped: Vec::new(),
            folder,
        };
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bill.json");
        let trace = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../traces/tests/data/xentrace-all.bin"
        );
        runs.add("sim", "bill unmap --on sim --pages 65536", Ending::Repeats);
        runs.add(
            "read",
            &format!("report {sample} --format json"),
            Ending::Repeats,
        );
        runs.add(
            "trace",
            &format!("trace {trace} --format json"),
            Ending::Repeats,
        );
        runs.add("lab", "bill irq --on lab", Ending::Repeats);
        runs.add(
            "live",
            "bill demand --on live --pages 4096 --runs 2 --vcpus 1 --mechanism uffd,exit-gmem",
            Ending::Varies,
        );
        runs.add("fix", "fix build xen-pv-get-and-clear", Ending::TooFar);
        runs
    }

    /// Runs it once; one that cannot be done here is skipped.
    fn add(&mut self, name: &'static str, arguments: &str, ending: Ending) {
        let [cache, temporary] = ["cache", "tmp"].map(|folder| self.folder.path().join(folder));
        fs::create_dir_all(&temporary).unwrap();
        let shared = std::env::var_os("PAGETOLL_CACHE").map(PathBuf::from);
        let below_target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut run = Run {
            name,
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            output: self.folder.path().join(format!("{name}.json")),
            cache: match ending {
                Ending::TooFar => cache,
                _ => shared.unwrap_or_else(below_target),
            },
            temporary,
            length: LONGEST,
            ending,
        };
        if ending != Ending::TooFar {
            let began = Instant::now();
            match run.finish() {
                Ok(()) => run.length = began.elapsed().min(LONGEST),
                Err(reason) => return self.skipped.push(format!("{name}: {reason}")),
            }
        }
        self.all.push(run);
    }

    /// What is left half made in a cache or in the folder for temporary files, after runs that ended by themselves.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let caches = self.all.iter().map(|run| run.cache.join("tmp"));
        let folders = caches.chain(self.all.iter().map(|run| run.temporary.clone()));
        let left = folders.flat_map(|folder| entries(&folder));
        left.map(|path| format!("{} is left behind", path.display()))
            .collect()
    }
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

impl Run {
    fn command(&self) -> Command {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let mut command = self.command_of(&arguments);
        if self.arguments.first().is_some_and(|word| word == "bill") {
            command.arg("--output").arg(&self.output);
        }
        command
    }

    fn command_of(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagetoll"));
        command
            .args(arguments)
            .env("PAGETOLL_CACHE", &self.cache)
            .env("TMPDIR", &self.temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Runs to the end.
    fn finish(&self) -> Result<(), String> {
        let output = self.command().output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', " ")),
        }
    }

    /// Starts it and kills it after a delay. Whether it was still at work then.
    pub(crate) fn killed_after(&self, delay: Duration) -> bool {
        let mut child = self.command().stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(delay);
        let at_work = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        at_work
    }

    /// The rows of its last bill.
    pub(crate) fn figures(&self) -> Option<Value> {
        let bill: Value = serde_json::from_slice(&fs::read(&self.output).ok()?).ok()?;
        bill.get("rows").cloned()
    }

    /// Runs once more: it must succeed, with the same figures where figures repeat.
    pub(crate) fn differs_from(&self, before: &Option<Value>) -> Vec<String> {
        if self.ending == Ending::TooFar {
            // This uses the same cache, and sweeps it.
            let mut next = self.command_of(&["cache", "clean", "--kind", "logs"]);
            return match next.status() {
                Ok(status) if status.success() => Vec::new(),
                other => vec![format!("the cache cannot be used: {other:?}")],
            };
        }
        match self.finish() {
            Err(error) => vec![format!("the next run failed: {error}")],
            Ok(()) if self.ending == Ending::Repeats && self.figures() != *before => {
                vec!["the next run has other figures".to_owned()]
            }
            Ok(()) => Vec::new(),
        }
    }
}
