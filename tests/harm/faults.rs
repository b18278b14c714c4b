//! System calls that fail, as on a disk that is full or broken or in a process without descriptors: a run that cannot go
//! on says so and ends with one of its exit codes; one that can gives the same figures.
//!
//! strace(1) makes them fail, in pagetoll and in all that it starts: the first, the second, the third of a name in every
//! thread that gets that far.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;
use std::{fs, iter};

use pagetoll_test_support::skipped_test;

use crate::attempts::{Attempt, Attempts};
use crate::run::{Run, RunEnd, Runs, bounded};
use crate::surroundings::Violations;

/// A call, and how it fails on a machine that is at fault.
const FAULTS: [(&str, &[&str]); 19] = [
    ("openat", &["EMFILE", "ENOSPC", "EIO"]),
    ("write", &["ENOSPC", "EIO"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("renameat", &["EIO", "ENOSPC"]),
    ("mkdir", &["ENOSPC"]),
    ("mkdirat", &["ENOSPC"]),
    ("ftruncate", &["ENOSPC"]),
    ("copy_file_range", &["ENOSPC", "EIO"]),
    ("unlink", &["EIO"]),
    ("unlinkat", &["EIO"]),
    ("getdents64", &["EIO"]),
    ("pipe2", &["EMFILE"]),
    ("memfd_create", &["EMFILE"]),
    ("eventfd2", &["EMFILE"]),
    ("userfaultfd", &["EMFILE"]),
    ("ioctl", &["EIO", "EINTR"]),
];
/// Exit codes of pagetoll: docs/ci.md. A program that cannot be loaded is not pagetoll yet.
const EXIT_CODES: [i32; 6] = [0, 1, 2, 3, 4, LOADER];
const LOADER: i32 = 127;
/// Time limit of a quick run, also on a busy machine.
const QUICK: Duration = Duration::from_secs(3);
/// Number of first calls of each name that fail; after those, calls fail that come twice as late as the last one that
/// did.
const EACH: u64 = 32;

/// Lets calls of the runs fail, in an order that the seed chooses, those of quick runs first; without strace, none.
pub(crate) fn fail_each(attempts: &Attempts, runs: &Runs) -> Violations {
    if Command::new("strace").arg("-V").output().is_err() {
        skipped_test(attempts.name, "strace is not installed");
        return Violations::default();
    }
    if attempts.times == 0 {
        return Violations::default();
    }
    let mut planned: Vec<(&Run, Fault)> = Vec::new();
    for run in runs.all.iter().filter(|run| run.is_quick_again()) {
        let calls = Calls::new(run);
        let before = planned.len();
        planned.extend(calls.faults().map(|fault| (run, fault)));
        println!(
            "{:<6} {} calls, {} faults",
            run.name,
            calls.total,
            planned.len() - before
        );
    }
    fastrand::Rng::with_seed(attempts.seed).shuffle(&mut planned);
    planned.sort_by_key(|(run, _)| run.length > QUICK);
    attempts.make(planned, runs, fail)
}

/// An error of a system call.
struct Fault {
    call: &'static str,
    error: &'static str,
    /// Number of the call among those of its name in a thread, from 1.
    when: u64,
}

/// Number of a run's calls.
struct Calls {
    /// Calls of a name in the thread that makes the most.
    most: HashMap<String, u64>,
    /// Calls of all names in all threads.
    total: usize,
}

impl Calls {
    fn new(run: &Run) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let names: Vec<_> = FAULTS.iter().map(|(call, _)| *call).collect();
        let ended = traced(
            run,
            log.path(),
            &["-e", &format!("trace={}", names.join(","))],
        );
        assert!(
            ended.is_some_and(|ended| ended.status.success()),
            "{}",
            run.name
        );
        Self::in_log(&fs::read_to_string(log.path()).unwrap())
    }

    /// Counts lines `THREAD CALL(ARGUMENTS) = RESULT`; signals and the second halves of interrupted lines name no call.
    fn in_log(log: &str) -> Self {
        let mut of_thread: HashMap<(&str, &str), u64> = HashMap::new();
        let call = |line| {
            let (thread, rest): (&str, &str) = str::split_once(line, ' ')?;
            let (name, _) = rest.trim_start().split_once('(')?;
            let known = FAULTS.iter().any(|(call, _)| *call == name);
            known.then_some((thread, name))
        };
        for call in log.lines().filter_map(call) {
            *of_thread.entry(call).or_default() += 1;
        }
        let mut calls = Self {
            most: HashMap::new(),
            total: 0,
        };
        for ((_, name), count) in of_thread {
            let most = calls.most.entry(name.to_owned()).or_default();
            *most = count.max(*most);
            calls.total += usize::try_from(count).unwrap();
        }
        calls
    }

    fn faults(&self) -> impl Iterator<Item = Fault> {
        FAULTS.iter().flat_map(|(call, errors)| {
            let most = self.most.get(*call).copied().unwrap_or_default();
            let later = iter::successors(Some(2 * EACH), |when| Some(when * 2));
            let whens = (1..=EACH)
                .chain(later)
                .take_while(move |when| *when <= most);
            whens.flat_map(move |when| errors.iter().map(move |error| Fault { call, error, when }))
        })
    }
}

fn fail(run: &Run, fault: Fault) -> Attempt {
    let Fault { call, error, when } = fault;
    let injected = format!("{call}:error={error}:when={when}");
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = [
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={injected}"),
    ];
    let ended = traced(run, log.path(), &options);
    let log = fs::read_to_string(log.path()).unwrap();
    let failed = || log.lines().filter(|line| line.ends_with("(INJECTED)"));
    // What is written to stderr gets lost where that is what fails.
    let heard = !failed().any(|line| line.contains(" write(2, "));
    let wrong = match ended {
        None => Some("is not at its end".to_owned()),
        Some(RunEnd { status, .. }) if status.success() && failed().any(is_of_an_eventfd) => None,
        Some(RunEnd { status, said }) => wrong(run, status, heard.then_some(said.as_str())),
    };
    Attempt {
        hit: failed().next().is_some(),
        wrong: wrong.map(|wrong| format!("{injected}: {wrong}")),
    }
}

/// An eventfd(2) has no such error: a machine on which QEMU's threads lose what they tell each other, so that a timer
/// fires at another instruction, is none that there is.
fn is_of_an_eventfd(line: &str) -> bool {
    line.contains(r#" write("#) && line.contains(r#""\1\0\0\0\0\0\0\0", 8)"#)
}

/// Problem of an end; `said` is the run's stderr, where it was heard.
fn wrong(run: &Run, status: ExitStatus, said: Option<&str>) -> Option<String> {
    match status.code() {
        Some(0) => run.other_figures(),
        Some(LOADER) => None,
        Some(code) if EXIT_CODES.contains(&code) => {
            let silent = said.is_some_and(str::is_empty);
            silent.then(|| format!("exit code {code} without a word"))
        }
        _ => Some(format!("{status}: {}", said.unwrap_or_default())),
    }
}

fn traced(run: &Run, log: &Path, options: &[&str]) -> Option<RunEnd> {
    bounded(run.below("strace", |strace| {
        strace
            .args(["-f", "-qq", "--seccomp-bpf", "-o"])
            .arg(log)
            .args(options);
    }))
}
