//! The runs that harm is done to: each a command that writes a bill over an older one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_test_support::skipped_test;
use serde_json::Value;

const PAGETOLL: &str = env!("CARGO_BIN_EXE_pagetoll");
/// Time limit of a run, also below strace. Assumed: ten times a boot's time.
const LIMIT: Duration = Duration::from_secs(300);
/// A longer run is killed within its beginning: that is where files are made.
const LONGEST: Duration = Duration::from_secs(4);
/// Time of saving a guest.
const SAVING: Duration = Duration::from_secs(1);

/// End of a run that is left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Counted or modelled figures, equal to the digit each time.
    Repeats,
    /// Counted or modelled figures, after its guests were booted and saved. It has a cache to itself.
    Saves,
    /// Measured figures.
    Varies,
    /// Not compared: it takes many minutes, is never left alone, and has a cache to itself.
    TooFar,
}

/// A command, and what it leaves when it ends by itself.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    arguments: Vec<String>,
    pub(crate) output: PathBuf,
    pub(crate) cache: PathBuf,
    temporary: PathBuf,
    /// Time of its work once it had [begun](Self::begin), at most [`LONGEST`].
    pub(crate) length: Duration,
    ending: Ending,
    /// Rows of its first bill.
    figures: Option<Value>,
}

/// All runs that this machine can do.
pub(crate) struct Runs {
    pub(crate) all: Vec<Run>,
    folder: tempfile::TempDir,
    /// The names in RUNS that no run had so far; `None` wants all.
    wanted: Option<BTreeSet<String>>,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = Self {
            all: Vec::new(),
            folder,
            wanted: std::env::var("RUNS").ok().map(names),
        };
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bill.json");
        let trace = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../xentrace/tests/data/xentrace-all.bin"
        );
        runs.add("sim", "bill unmap --on sim --pages 65536", Ending::Repeats);
        runs.add(
            "read",
            &format!("report {sample} --format json"),
            Ending::Repeats,
        );
        runs.add(
            "trace",
            &format!("read {trace} --format json"),
            Ending::Repeats,
        );
        runs.add("lab", "bill irq --on lab --fresh", Ending::Repeats);
        runs.add("save", "bill irq --on lab --fresh", Ending::Saves);
        runs.add(
            "live",
            "bill demand --on live --pages 4096 --runs 2 --vcpus 1 --mechanism uffd,exit-gmem",
            Ending::Varies,
        );
        runs.add("fix", "fix build xen-pv-get-and-clear", Ending::TooFar);
        let unknown = runs.wanted.iter().flatten().next();
        assert_eq!(unknown, None, "RUNS: no run has this name");
        runs
    }

    /// Runs it once; one that cannot be done here is skipped.
    fn add(&mut self, name: &'static str, arguments: &str, ending: Ending) {
        if self
            .wanted
            .as_mut()
            .is_some_and(|names| !names.remove(name))
        {
            return;
        }
        let temporary = self.folder.path().join("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let shared = std::env::var_os("PAGETOLL_CACHE").map(PathBuf::from);
        let below_target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut run = Run {
            name,
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            output: self.folder.path().join(format!("{name}.json")),
            cache: match ending {
                Ending::TooFar | Ending::Saves => self.folder.path().join(format!("cache-{name}")),
                _ => shared.unwrap_or_else(below_target),
            },
            temporary,
            length: LONGEST,
            ending,
            figures: None,
        };
        if run.ends() {
            let began = Instant::now();
            match run.finish() {
                Ok(()) => {
                    run.length = match ending {
                        Ending::Saves => SAVING,
                        _ => began.elapsed().min(LONGEST),
                    };
                    run.figures = run.last_figures();
                }
                Err(reason) => return skipped_test(&format!("harm to {name}"), &reason),
            }
        }
        self.all.push(run);
    }

    /// Unfinished files in a cache or in the folder for temporary files, after runs that ended by themselves.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let caches = self.all.iter().map(|run| run.cache.join("tmp"));
        let folders = caches.chain(self.all.iter().map(|run| run.temporary.clone()));
        let left = folders.flat_map(|folder| entries(&folder));
        left.map(|path| format!("{} is left behind", path.display()))
            .collect()
    }
}

fn names(list: String) -> BTreeSet<String> {
    list.split(',').map(str::to_owned).collect()
}

/// Exit status and stderr of a command.
pub(crate) struct RunEnd {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

/// Runs it; `None` when it had to be killed. What it started is left to [`strays`](pagetoll_test_support::strays).
pub(crate) fn bounded(mut command: Command) -> Option<RunEnd> {
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut child = command.stderr(said.reopen().unwrap()).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > LIMIT => {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = fs::read_to_string(said.path()).unwrap();
    Some(RunEnd { status, said })
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

impl Run {
    pub(crate) fn command(&self) -> Command {
        self.with_arguments(Command::new(PAGETOLL))
    }

    /// Command line of another program that runs it, with that program's options first.
    pub(crate) fn below(&self, program: &str, options: impl FnOnce(&mut Command)) -> Command {
        let mut command = Command::new(program);
        options(&mut command);
        command.arg(PAGETOLL);
        self.with_arguments(command)
    }

    fn with_arguments(&self, mut command: Command) -> Command {
        command.args(&self.arguments);
        if self.arguments.first().is_some_and(|word| word == "bill") {
            command.arg("--output").arg(&self.output);
        }
        self.in_place(&mut command);
        command
    }

    fn in_place(&self, command: &mut Command) {
        command
            .env("PAGETOLL_CACHE", &self.cache)
            .env("TMPDIR", &self.temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
    }

    /// Runs to the end.
    fn finish(&self) -> Result<(), String> {
        let ended = bounded(self.command()).ok_or("it did not come to its end")?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(ended.said.trim().replace('\n', " ")),
        }
    }

    /// True if it ever ends by itself.
    pub(crate) fn ends(&self) -> bool {
        self.ending != Ending::TooFar
    }

    /// True if its calls can be made to fail one by one: not where each time takes a boot.
    pub(crate) fn is_quick_again(&self) -> bool {
        matches!(self.ending, Ending::Repeats | Ending::Varies)
    }

    /// Makes its cache as it has to be before each time.
    pub(crate) fn prepare(&self) {
        if self.ending == Ending::Saves {
            self.clean("snapshots").unwrap();
        }
    }

    /// Starts it, and waits until it is at the work that it is killed at.
    pub(crate) fn begin(&self) -> Child {
        let mut child = self.command().stderr(Stdio::null()).spawn().unwrap();
        while self.ending == Ending::Saves && !self.is_saving() {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// True while a snapshot is in the making.
    fn is_saving(&self) -> bool {
        let runs = entries(&self.cache.join("tmp")).into_iter();
        let mut drafts = runs.flat_map(|run| entries(&run));
        drafts.any(|draft| draft.join("state.lz4").exists())
    }

    /// Removes entries of a kind from its cache, which is swept by that.
    fn clean(&self, kind: &str) -> Result<(), String> {
        let mut clean = Command::new(PAGETOLL);
        self.in_place(clean.args(["cache", "clean", "--kind", kind]));
        match clean.status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("the cache cannot be used: {other:?}")),
        }
    }

    /// The rows of its last bill.
    fn last_figures(&self) -> Option<Value> {
        let bill: Value = serde_json::from_slice(&fs::read(&self.output).ok()?).ok()?;
        bill.get("rows").cloned()
    }

    /// A problem if the figures of its last bill differ from those of its first, where figures repeat.
    pub(crate) fn other_figures(&self) -> Option<String> {
        let other = self.ending == Ending::Repeats && self.last_figures() != self.figures;
        other.then(|| "its figures are others".to_owned())
    }

    /// Runs once more: it must succeed, with the same figures where figures repeat.
    pub(crate) fn differs(&self) -> Option<String> {
        if !self.ends() {
            return self.clean("logs").err();
        }
        match self.finish() {
            Err(error) => Some(format!("the next run failed: {error}")),
            Ok(()) => self.other_figures(),
        }
    }
}
