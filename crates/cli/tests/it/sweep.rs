//! Sweeps end to end, by jobs of the simulator.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use pagetoll_test_support::skip;
use tempfile::TempDir;

use crate::{assert_ended, pagetoll, program, text};

/// 12 jobs, some of them slow enough to be interrupted.
const PLAN: &str = "\
[axes]
route = ['unmap', 'fault', 'irq']
seed = [1, 2, 3, 4]
[options]
on = 'sim'
";

/// A folder with a plan.
fn folder_with(plan: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    folder
}

fn run_in(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = pagetoll(arguments);
    command.current_dir(folder);
    command
}

fn sweep(folder: &Path, arguments: &[&str]) -> Output {
    let words = [&["sweep", "plan.toml"], arguments].concat();
    run_in(folder, &words).output().unwrap()
}

fn swept(folder: &Path, arguments: &[&str]) -> String {
    let output = sweep(folder, arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The bills of a store, by name.
fn bills(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(store.join("bills")).into_iter().flatten();
    let bill = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    entries.map(bill).collect()
}

/// Runs of each job that came to their ends.
fn runs(store: &Path) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for line in fs::read_to_string(store.join("runs.jsonl"))
        .unwrap()
        .lines()
    {
        let run: serde_json::Value = serde_json::from_str(line).unwrap();
        *runs
            .entry(run["id"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    runs
}

#[test]
fn a_second_run_does_nothing_and_show_has_a_line_for_each_job() {
    let folder = folder_with(PLAN);
    let first = swept(folder.path(), &["--store", "s", "--jobs", "2"]);
    assert_eq!(first, "12 jobs: 12 billed, 0 were there, 0 failed\n");
    let second = swept(folder.path(), &["--store", "s"]);
    assert_eq!(second, "12 jobs: 0 billed, 12 were there, 0 failed\n");
    assert_eq!(
        runs(&folder.path().join("s")).into_values().sum::<usize>(),
        12
    );
    let listed = swept(folder.path(), &["--store", "s", "--dry-run"]);
    assert_eq!(
        listed.matches("  done    pagetoll bill ").count(),
        12,
        "{listed}"
    );
    for format in ["text", "md", "html"] {
        let mut shown = run_in(folder.path(), &["sweep", "show", "s", "--format", format]);
        let shown = text(&shown.output().unwrap().stdout);
        assert_eq!(shown.matches("emulate 1859.9").count(), 4, "{shown}");
    }
    let mut shown = run_in(folder.path(), &["sweep", "show", "s", "--format", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.output().unwrap().stdout).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 12);
    assert_eq!(shown[0]["said"]["route"], "fault");
    assert!(
        shown[0]["billed"]["costs"][0]["cost_per_page"].is_number(),
        "{shown}"
    );
}

#[test]
fn a_killed_sweep_resumes_and_runs_nothing_twice() {
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "whole"]);
    let store = folder.path().join("killed");
    let program = program();
    let mut resumed = 0;
    for _ in 0..3 {
        let mut child = Process::new(&program)
            .current_dir(folder.path())
            .args(["sweep", "plan.toml", "--store", "killed", "--jobs", "2"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = bills(&store).len();
        let began = Instant::now();
        while bills(&store).len() < before + 2 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        resumed += usize::from(bills(&store).len() < 12);
    }
    assert!(resumed > 0, "no sweep was killed midway");
    let last = swept(folder.path(), &["--store", "killed"]);
    assert!(
        last.starts_with("12 jobs: ") && last.ends_with(", 0 failed\n"),
        "{last}"
    );
    assert_eq!(bills(&store), bills(&folder.path().join("whole")));
    let runs = runs(&store);
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    assert_eq!(fs::read_dir(store.join("tmp")).unwrap().count(), 0);
}

/// Processes that were started for a sweep, by the variable that names it.
fn children_of(number: u32) -> usize {
    let mark = format!("PAGETOLL_PARENT={number}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    let is_marked = |environment: &Vec<u8>| {
        environment
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    environments.filter(is_marked).count()
}

#[test]
fn no_job_outlives_its_sweep() {
    let plan = "[axes]\nroute = ['demand']\nseed = [1, 2]\n[options]\non = 'sim'\nsamples = 1000\nsensitivity = true\n";
    let folder = folder_with(plan);
    let program = program();
    for (signal, code) in [("KILL", None), ("INT", Some(130)), ("TERM", Some(143))] {
        let mut child = Process::new(&program)
            .current_dir(folder.path())
            .args(["sweep", "plan.toml", "--store", signal, "--jobs", "2"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while children_of(child.id()) < 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "no jobs");
            thread::sleep(Duration::from_millis(5));
        }
        let killed = Process::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        let began = Instant::now();
        while children_of(child.id()) > 0 {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{signal}: jobs are left"
            );
            thread::sleep(Duration::from_millis(5));
        }
        let failures = fs::read_dir(folder.path().join(signal).join("failures"));
        assert_eq!(failures.unwrap().count(), 0, "{signal}");
    }
}

#[test]
fn printed_jobs_give_the_same_store() {
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "own"]);
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(program(), bin.join("pagetoll")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let script =
        "pagetoll sweep plan.toml --store 'x args' --print-jobs | xargs -P2 -d '\\n' -n1 sh -c";
    let output = Process::new("sh")
        .args(["-ec", script])
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let store = folder.path().join("x args");
    assert_eq!(bills(&store), bills(&folder.path().join("own")));
    assert_eq!(bills(&store).len(), 12);
    assert!(swept(folder.path(), &["--store", "x args", "--print-jobs"]).is_empty());
}

#[test]
fn bad_plans_are_refused_before_anything_runs() {
    let cases: [(&str, &[&str]); 7] = [
        (
            "[axes]\nroute = ['unmap']\nkernl = ['a']\n",
            &["plan.toml: line 3: axes.kernl", "did you mean 'kernel'?"],
        ),
        (
            "[axes]\nroute = ['unmap']\nformat = ['text']\n",
            &["axes.format: is not an option"],
        ),
        (
            "[axes]\nroute = ['unmap']\n[[exclude]]\nroute = 'unmap'\n",
            &["plan.toml: no job is left"],
        ),
        (
            "[axes]\nroute = ['unmap']\n[options]\non = 'sim'\nkernel = 'debian'\n",
            &[
                "bill unmap --kernel debian --on sim",
                "--kernel: not supported by unmap on sim",
            ],
        ),
        (
            "[axes]\nroute = ['unmap']\nbatch = [0]\n[options]\non = 'sim'\n",
            &["--batch 0", "expected 1 to 512"],
        ),
        ("[axes]\nroute = ['unmapp']\n", &["unmapp"]),
        (
            "[axes]\nroute = ['unmap']\nhost = ['n1']\n[options]\non = 'sim'\n",
            &["host = n1: not supported on sim"],
        ),
    ];
    for (plan, words) in cases {
        let folder = folder_with(plan);
        assert_ended(&sweep(folder.path(), &["--store", "s"]), 2, words);
        assert!(!folder.path().join("s").exists(), "{plan}");
    }
    let folder = folder_with(
        "[axes]\nroute = ['demand']\nhost = ['no-such-node']\n[options]\non = 'live'\n",
    );
    let output = sweep(folder.path(), &["--store", "s"]);
    assert_ended(&output, 2, &["host = no-such-node: is not this machine"]);
    let output = sweep(folder.path(), &["--store", "s", "--address", "auto"]);
    assert_ended(&output, 2, &["--address: not supported with --on local"]);
    let output = sweep(
        folder.path(),
        &["--store", "s", "--on", "ray", "--jobs", "2"],
    );
    assert_ended(&output, 2, &["--jobs: not supported with --on ray"]);
    let output = run_in(folder.path(), &["sweep", "none.toml", "--store", "s"])
        .output()
        .unwrap();
    assert_ended(&output, 2, &["none.toml: cannot be read"]);
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = folder_with(PLAN);
    fs::create_dir(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join("mine/thesis.tex"), "").unwrap();
    for arguments in [&["--store", "mine"][..], &["--store", "mine", "--dry-run"]] {
        assert_ended(
            &sweep(folder.path(), arguments),
            2,
            &["mine: is not a store"],
        );
    }
    for store in ["mine", "none"] {
        let output = run_in(folder.path(), &["sweep", "show", store])
            .output()
            .unwrap();
        assert_ended(&output, 2, &["is not a store (it has no store.toml)"]);
    }
    let output = sweep(
        folder.path(),
        &["--store", "s", "--job", "0123456789abcdef"],
    );
    assert_ended(&output, 2, &["--job 0123456789abcdef: is not of plan.toml"]);
    assert_ended(
        &sweep(folder.path(), &["--store", "s", "--job", "../x"]),
        2,
        &["expected an id of 16"],
    );
}

/// The path of the bill of the first job of a whole store.
fn a_bill(store: &Path) -> PathBuf {
    store
        .join("bills")
        .join(bills(store).keys().next().unwrap())
}

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RWXU;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

/// A command that must not wait for anybody.
fn at_once(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = run_in(folder, arguments);
    command.timeout(Duration::from_secs(60)).output().unwrap()
}

#[test]
fn links_in_a_store_are_refused_and_nothing_outside_is_touched() {
    let folder = folder_with("[axes]\nroute = ['irq']\n[options]\non = 'sim'\n");
    let (outside, store) = (folder.path().join("outside"), folder.path().join("s"));
    fs::create_dir(&outside).unwrap();
    for name in ["victim", ".pagetoll-data.txt"] {
        fs::write(outside.join(name), "precious").unwrap();
    }
    for (name, target) in [
        ("lock", "victim"),
        ("runs.jsonl", "victim"),
        ("tmp", ""),
        ("bills", ""),
        ("failures", ""),
    ] {
        swept(folder.path(), &["--store", "s"]);
        fs::remove_file(a_bill(&store)).unwrap();
        let place = store.join(name);
        let removed = fs::remove_file(&place).or_else(|_| fs::remove_dir_all(&place));
        removed.unwrap();
        symlink(outside.join(target), &place).unwrap();
        let named = format!("s/{name}: is a symbolic link; expected a ");
        assert_ended(&sweep(folder.path(), &["--store", "s"]), 2, &[&named]);
        let names: Vec<_> = fs::read_dir(&outside).unwrap().flatten().collect();
        assert_eq!(names.len(), 2, "{name}: {names:?}");
        for entry in names {
            assert_eq!(fs::read(entry.path()).unwrap(), b"precious", "{name}");
        }
        fs::remove_dir_all(&store).unwrap();
    }
}

#[test]
fn what_is_no_regular_file_in_a_store_is_refused_at_once() {
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "s"]);
    let store = folder.path().join("s");
    let bill = a_bill(&store);
    for place in [store.join("store.toml"), bill.clone()] {
        fs::rename(&place, folder.path().join("aside")).unwrap();
        let name = place.file_name().unwrap().to_str().unwrap();
        pipe(&place);
        let expected = [name, "is a named pipe; expected a regular file"];
        let runs: [&[&str]; 3] = [
            &["sweep", "plan.toml", "--store", "s"],
            &["sweep", "plan.toml", "--store", "s", "--dry-run"],
            &["sweep", "show", "s"],
        ];
        for arguments in runs {
            assert_ended(&at_once(folder.path(), arguments), 2, &expected);
        }
        fs::rename(folder.path().join("aside"), &place).unwrap();
    }
    let shown = |expected: &str| {
        let name = bill.file_name().unwrap().to_str().unwrap();
        let output = at_once(folder.path(), &["sweep", "show", "s"]);
        assert_ended(&output, 2, &[name, expected]);
        fs::remove_file(&bill).unwrap();
    };
    fs::remove_file(&bill).unwrap();
    symlink("/dev/zero", &bill).unwrap();
    shown("is a symbolic link; expected a regular file");
    fs::File::create(&bill).unwrap().set_len(1 << 36).unwrap();
    shown("is larger than 64 MiB; expected at most that");
    swept(folder.path(), &["--store", "s"]);
}

/// An axis of the numbers from 1.
fn axis(name: &str, values: usize) -> String {
    let values: Vec<_> = (1..=values).map(|value| value.to_string()).collect();
    format!("{name} = [{}]\n", values.join(", "))
}

#[test]
fn a_plan_of_too_many_jobs_is_refused_before_any_is_made() {
    let axes = ["seed", "batch", "pages"].map(|name| axis(name, 1000));
    let folder = folder_with(&format!("[axes]\nroute = ['unmap']\n{}", axes.concat()));
    let expected = "plan.toml: has 1000000000 jobs (batch 1000 x pages 1000 x route 1 x seed 1000); expected at most 100000";
    for arguments in [&["--store", "s", "--dry-run"][..], &["--store", "s"]] {
        let words = [&["sweep", "plan.toml"], arguments].concat();
        assert_ended(&at_once(folder.path(), &words), 2, &[expected]);
    }
    fs::write(folder.path().join("plan.toml"), vec![b'\n'; (4 << 20) + 1]).unwrap();
    let output = sweep(folder.path(), &["--store", "s"]);
    assert_ended(&output, 2, &["plan.toml: is larger than 4 MiB"]);
}

#[test]
fn a_signal_ends_the_planning_of_many_jobs() {
    let axes = [axis("seed", 1000), axis("batch", 100)].concat();
    let folder = folder_with(&format!(
        "[axes]\nroute = ['unmap']\n{axes}[options]\non = 'sim'\n"
    ));
    let mut child = Process::new(program())
        .current_dir(folder.path())
        .args(["sweep", "plan.toml", "--store", "s", "--dry-run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Planning takes a minute and more where the program is not optimised.
    thread::sleep(Duration::from_secs(2));
    let began = Instant::now();
    let number = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(number, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn paths_that_are_no_word_of_a_line_are_not_printed_for_other_programs() {
    let folder = folder_with(PLAN);
    let names = ["a\ntouch injected\n.toml", "a\r.toml", "-.toml"];
    for name in names {
        fs::write(folder.path().join(name), PLAN).unwrap();
        let plan = ["sweep", "--print-jobs", "--store", "s", "--", name];
        let output = run_in(folder.path(), &plan).output().unwrap();
        assert_ended(&output, 2, &["PLAN", &format!("{name:?}")]);
        assert!(output.stdout.is_empty(), "{name:?}");
        let store = format!("--store={name}");
        let output = sweep(folder.path(), &["--print-jobs", &store]);
        assert_ended(&output, 2, &["--store", &format!("{name:?}")]);
        assert!(output.stdout.is_empty(), "{name:?}");
    }
    let bytes = OsStr::from_bytes(b"\xff.toml");
    let mut command = run_in(folder.path(), &["sweep", "--print-jobs", "--store", "s"]);
    let output = command.arg(bytes).output().unwrap();
    assert_ended(
        &output,
        2,
        &["PLAN", "expected with --print-jobs a path in UTF-8"],
    );
}

#[test]
fn a_job_is_one_line_whatever_its_plan_says() {
    let costs = "./costs\n\u{1b}[2J.toml";
    let plan = format!("[axes]\nroute = ['irq']\n[options]\non = 'sim'\ncosts = {costs:?}\n");
    let folder = folder_with(&plan.replace("\\u{1b}", "\\u001b"));
    let table = include_str!("../../../../costs/lab-xen-4.17.toml");
    fs::write(folder.path().join(costs), table).unwrap();
    let listed = swept(folder.path(), &["--store", "s", "--dry-run"]);
    assert_eq!(listed.lines().count(), 1, "{listed:?}");
    assert!(!listed.contains('\u{1b}'), "{listed:?}");
}

#[test]
fn two_sweeps_on_a_store_exclude_each_other() {
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "s"]);
    let lock = fs::File::open(folder.path().join("s/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_ended(
        &sweep(folder.path(), &["--store", "s"]),
        2,
        &["s: is in use by process"],
    );
    let shown = run_in(folder.path(), &["sweep", "show", "s"])
        .output()
        .unwrap();
    assert!(shown.status.success());
}

#[test]
fn a_corrupt_bill_is_named_and_billed_again() {
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "s"]);
    let store = folder.path().join("s");
    let whole = bills(&store);
    let name = whole.keys().next().unwrap();
    fs::write(
        store.join("bills").join(name),
        "{\"schema\": \"pagetoll.bill/1\"",
    )
    .unwrap();
    let shown = run_in(folder.path(), &["sweep", "show", "s"])
        .output()
        .unwrap();
    assert_ended(&shown, 0, &[name, "EOF while parsing"]);
    assert!(text(&shown.stdout).starts_with("sweep: 11 jobs in s"));
    let output = sweep(folder.path(), &["--store", "s"]);
    assert_ended(&output, 0, &[name, "it is billed again"]);
    assert_eq!(
        text(&output.stdout),
        "12 jobs: 1 billed, 11 were there, 0 failed\n"
    );
    assert_eq!(bills(&store), whole);
}

#[test]
fn a_job_that_fails_is_tried_again_and_kept_with_its_reason() {
    // A simulated deadlock: the order is sound, the run is not.
    let plan = "[axes]\nroute = ['flush']\nwhat-if = ['interrupts-off']\n[options]\non = 'sim'\nsamples = 1\n[[include]]\nroute = 'irq'\n";
    let folder = folder_with(plan);
    let output = sweep(folder.path(), &["--store", "s", "--retries", "2"]);
    assert_ended(&output, 1, &["--what-if interrupts-off"]);
    assert_eq!(
        text(&output.stdout),
        "2 jobs: 1 billed, 0 were there, 1 failed\n"
    );
    let store: PathBuf = folder.path().join("s");
    let mut counts: Vec<_> = runs(&store).into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3]);
    let failure = fs::read_dir(store.join("failures"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let failure: serde_json::Value =
        serde_json::from_slice(&fs::read(failure.path()).unwrap()).unwrap();
    assert_eq!(
        (&failure["exit"], &failure["attempts"]),
        (&1.into(), &3.into())
    );
    assert!(
        failure["reason"].as_str().unwrap().contains("deadlock"),
        "{failure}"
    );
    let shown = run_in(folder.path(), &["sweep", "show", "s"])
        .output()
        .unwrap();
    assert!(
        text(&shown.stdout).contains("failed (exit 1): deadlock at "),
        "{}",
        text(&shown.stdout)
    );
}

/// A file system of 64 KiB, unmounted when dropped.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(place: PathBuf) -> Option<Self> {
        fs::create_dir(&place).unwrap();
        let mounted = Process::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&place)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(place))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _unmounted = Process::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_whole_bills_alone() {
    let folder = folder_with(PLAN);
    let Some(tiny) = Tiny::mount(folder.path().join("tiny")) else {
        skip!("no tmpfs can be mounted here");
    };
    let output = sweep(folder.path(), &["--store", "tiny/s"]);
    assert_ended(&output, 3, &["cannot write ", "tiny/s/bills/"]);
    let stderr = text(&output.stderr).to_lowercase();
    assert!(
        stderr.contains("no space left") || stderr.contains("no storage space"),
        "{stderr}"
    );
    let store = tiny.0.join("s");
    assert!(
        bills(&store)
            .values()
            .all(|bill| serde_json::from_slice::<serde_json::Value>(bill).is_ok())
    );
    assert_eq!(fs::read_dir(store.join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_job_of_this_machine_is_run_whatever_the_others_are_of() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let plan = format!(
        "[axes]\nroute = ['demand']\nhost = ['no-such-node', '{}']\n[options]\non = 'live'\npages = 64\nruns = 1\n",
        name.trim()
    );
    let folder = folder_with(&plan);
    let listed = swept(folder.path(), &["--store", "s", "--dry-run"]);
    let ids: Vec<_> = listed.lines().map(|line| &line[..16]).collect();
    let one = |id: &str| text(&sweep(folder.path(), &["--store", "s", "--job", id]).stderr);
    let elsewhere = "host = no-such-node: is not this machine";
    assert!(one(ids[0]).contains(elsewhere));
    // Whether it can be billed here depends on the machine.
    assert!(!one(ids[1]).contains("is not this machine"));
    assert_eq!(
        runs(&folder.path().join("s")).keys().collect::<Vec<_>>(),
        [ids[1]]
    );
}

/// An executor that runs each job itself, backwards. `{end}` is what it does after each.
const EXECUTOR: &str = r#"
import json, subprocess, sys, time
jobs = [json.loads(line) for line in sys.stdin]
for number, job in enumerate(reversed(jobs)):
    began = time.time()
    print(json.dumps({"lost": "n0", "id": job["id"]}), flush=True)
    ran = subprocess.run(job["argv"], capture_output=True, text=True)
    print(json.dumps({"id": job["id"], "node": "n1", "exit": ran.returncode, "stdout": ran.stdout,
        "stderr": ran.stderr, "seconds": time.time() - began}), flush=True)
    {end}
"#;

/// A sweep by an executor, whose source this is; `None` leaves the package out.
fn swept_by(folder: &Path, executor: Option<&str>, arguments: &[&str]) -> Output {
    let package = folder.join("python/pagetoll");
    let _absent = fs::remove_dir_all(&package);
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("__init__.py"), "").unwrap();
    if let Some(source) = executor {
        fs::write(package.join("executor.py"), source).unwrap();
    }
    let words = [&["sweep", "plan.toml", "--on", "ray"], arguments].concat();
    let mut command = run_in(folder, &words);
    command
        .env("PYTHONPATH", folder.join("python"))
        .output()
        .unwrap()
}

fn has_python() -> bool {
    Process::new("python3").arg("--version").output().is_ok()
}

#[test]
fn an_executor_gives_the_same_store_and_its_death_loses_nothing() {
    if !has_python() {
        skip!("no python3");
    }
    let folder = folder_with(PLAN);
    swept(folder.path(), &["--store", "own"]);
    let own = bills(&folder.path().join("own"));
    let dies = EXECUTOR.replace("{end}", "if number == 4: sys.exit('the head is gone')");
    let output = swept_by(folder.path(), Some(&dies), &["--store", "s"]);
    assert_ended(
        &output,
        3,
        &[
            "with 7 of 12 jobs left",
            "the head is gone",
            "node n0 is lost",
        ],
    );
    let store = folder.path().join("s");
    assert_eq!(bills(&store).len(), 5);
    let works = EXECUTOR.replace("{end}", "pass");
    let output = swept_by(folder.path(), Some(&works), &["--store", "s"]);
    assert_ended(&output, 0, &[]);
    assert_eq!(
        text(&output.stdout),
        "12 jobs: 7 billed, 5 were there, 0 failed\n"
    );
    assert_eq!(bills(&store), own);
    assert!(runs(&store).values().all(|count| *count == 1));
    assert!(
        fs::read_to_string(store.join("runs.jsonl"))
            .unwrap()
            .contains("\"node\":\"n1\"")
    );
}

#[test]
fn an_executor_that_is_missing_or_says_nonsense_is_the_machines_lack() {
    if !has_python() {
        skip!("no python3");
    }
    let folder = folder_with(PLAN);
    let install = "pip install 'pagetoll[ray]'";
    let missing = swept_by(folder.path(), None, &["--store", "s"]);
    assert_ended(
        &missing,
        3,
        &["pagetoll.executor is not installed", install],
    );
    let without_ray = "import sys\nprint('no ray here', file=sys.stderr)\nsys.exit(3)";
    let missing = swept_by(folder.path(), Some(without_ray), &["--store", "s"]);
    assert_ended(
        &missing,
        3,
        &["pagetoll.executor ended (exit status: 3)", "no ray here"],
    );
    let nonsense = "import time\nprint('hello', flush=True)\ntime.sleep(60)";
    let began = Instant::now();
    let output = swept_by(folder.path(), Some(nonsense), &["--store", "s"]);
    assert_ended(
        &output,
        3,
        &["pagetoll.executor wrote \"hello\"; expected a result"],
    );
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "it was waited for"
    );
    let mut command = run_in(
        folder.path(),
        &["sweep", "plan.toml", "--store", "s", "--on", "ray"],
    );
    let output = command.env("PATH", "/nonexistent").output().unwrap();
    assert_ended(&output, 3, &["python3 is not installed", install]);
}
