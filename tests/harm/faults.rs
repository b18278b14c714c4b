//! System calls that fail at a random point, as on a disk that is full or broken or in a process without descriptors: a
//! run that cannot go on says so and ends with one of its exit codes; one that can gives the same figures.
//!
//! strace(1) makes them fail, in pagetoll and in all that it starts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_test_support::skipped_test;

use crate::attempts::{Attempt, Attempts};
use crate::run::{Run, Runs};
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
/// What pagetoll exits with: docs/ci.md. A program that cannot be loaded is not pagetoll yet.
const EXIT_CODES: [i32; 6] = [0, 1, 2, 3, 4, LOADER];
const LOADER: i32 = 127;
/// How long a run may take beside strace. Assumed: ten times a boot's time.
const LIMIT: Duration = Duration::from_secs(300);

/// Lets a call of each run fail; without strace, of none.
pub(crate) fn fail_each(attempts: &Attempts, runs: &Runs) -> Violations {
    if Command::new("strace").arg("-V").output().is_err() {
        skipped_test(attempts.name, "strace is not installed");
        return Violations::default();
    }
    if attempts.times == 0 {
        return Violations::default();
    }
    let ending = || runs.all.iter().filter(|run| run.ends());
    let calls: HashMap<_, _> = ending().map(|run| (run.name, Calls::of(run))).collect();
    attempts.make(ending(), runs, |run, random| {
        let (call, errors) = FAULTS[random.usize(..FAULTS.len())];
        let error = errors[random.usize(..errors.len())];
        let when = random.u64(1..=calls[run.name].most(call));
        fail(run, call, &format!("{call}:error={error}:when={when}"))
    })
}

/// How often a run makes each call.
struct Calls(String);

impl Calls {
    fn of(run: &Run) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let names: Vec<_> = FAULTS.iter().map(|(call, _)| *call).collect();
        let options = ["-c", "-e", &format!("trace={}", names.join(","))];
        let ended = traced(run, log.path(), &options);
        assert!(
            ended.is_some_and(|(status, _)| status.success()),
            "{}",
            run.name
        );
        Self(fs::read_to_string(log.path()).unwrap())
    }

    /// The column `calls` of strace's table; at least one.
    fn most(&self, call: &str) -> u64 {
        let mut lines = self
            .0
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.last() == Some(&call));
        line.and_then(|words| words.get(3)?.parse().ok())
            .unwrap_or(1)
    }
}

fn fail(run: &Run, call: &str, fault: &str) -> Attempt {
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = [
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={fault}"),
    ];
    let ended = traced(run, log.path(), &options);
    let hit = fs::read_to_string(log.path())
        .unwrap()
        .contains("(INJECTED)");
    let wrong = match ended {
        None => Some("is not at its end".to_owned()),
        Some((status, said)) => wrong(run, status, &said),
    };
    Attempt {
        hit,
        wrong: wrong.map(|wrong| format!("{fault}: {wrong}")),
    }
}

fn wrong(run: &Run, status: ExitStatus, said: &str) -> Option<String> {
    match status.code() {
        Some(0) => run.other_figures(),
        Some(LOADER) => None,
        Some(code) if !EXIT_CODES.contains(&code) => Some(format!("exit code {code}: {said}")),
        Some(code) if said.is_empty() => Some(format!("exit code {code} without a word")),
        Some(_) => None,
        None => Some(format!("{status}: {said}")),
    }
}

/// Runs it below strace; `None` if it had to be killed. Also what it said.
fn traced(run: &Run, log: &Path, options: &[&str]) -> Option<(ExitStatus, String)> {
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut command = run.below("strace", |strace| {
        strace
            .args(["-f", "-qq", "--seccomp-bpf", "-o"])
            .arg(log)
            .args(options);
    });
    let stderr = Stdio::from(File::create(said.path()).unwrap());
    let mut child = command.stderr(stderr).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > LIMIT => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    Some((status?, fs::read_to_string(said.path()).unwrap()))
}
