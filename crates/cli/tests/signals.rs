//! Every command, ended by a signal: at once, with its code, and with nothing left of it.
//!
//! `make signals` allows a second, as is promised. Here it is more, since tests also pass on busy machines.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_test_support::{Parts, become_subreaper, in_parts, strays};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

/// Milliseconds that a command may take to end, where the variable `WITHIN_MS` does not say.
const WITHIN: u64 = 10_000;
/// Delays between the start of a command and the signal.
const MOMENTS: [Duration; 3] = [
    Duration::from_millis(15),
    Duration::from_millis(150),
    Duration::from_millis(900),
];
/// Time for the processes of a command to disappear.
const VANISH: Duration = Duration::from_secs(10);

/// A signal, and the code that a command ends with: its own or that of a shell for a program without handlers.
const SIGNALS: [(Signal, i32); 2] = [(Signal::INT, 130), (Signal::TERM, 143)];

/// Commands by what they are at. Files are of [`Place`], and `_` is a blank within a word.
const COMMANDS: [&str; 47] = [
    // Inside one simulated machine.
    "bill unmap --on sim --pages 268435456",
    "bill fault --on sim --pages 268435456",
    "bill switch --on sim --pages 268435456 --output old.json",
    "bill irq --on sim --pages 268435456",
    "bill flush --on sim --pages 268435456",
    "bill pin --on sim --pages 16777216",
    "bill demand --on sim --pages 4096 --samples 400",
    "bill demand --on sim --pages 4096 --samples 1 --vcpus 256",
    // On this machine, where it can.
    "bill demand --on live --runs 100 --vcpus 1",
    "bill restore --on live --runs 100",
    "bill dirty --on live --runs 100",
    "bill discard --on live --runs 100",
    "bill migrate --on live --runs 100",
    "calibrate --this-host --busy",
    "validate --live --busy",
    // Reading what does not come to an end, or is large.
    "read -",
    "report -",
    "advise -",
    "diff - old.json",
    "read large.txt",
    "read large.txt --compare large.txt",
    "report bills",
    "read pipe",
    "report pipe",
    // Planning, and running jobs.
    "sweep many.toml --store planned --dry-run",
    "sweep many.toml --store planned",
    "sweep slow.toml --store running",
    "sweep show running",
    "sweep pipe --store planned",
    // In git, which waits for a file that says nothing.
    "bisect --git waiting --route unmap --row x HEAD~1 HEAD",
    "fix build none --source waiting",
    "fix check xen-lazy-mmu --source waiting",
    // All others.
    "validate",
    "search",
    "conformance --on sim",
    "doctor",
    "routes",
    "cache verify",
    "cache clean",
    "cache",
    "calibrate old.json",
    "fix list",
    "fix show xen-lazy-mmu",
    "fix export xen-lazy-mmu exported",
    "completions bash",
    "man --folder generated",
    "bisect run-one kept.json --row clear_set-pte -- --on sim --pages 268435456",
];

/// Commands without an entry in [`COMMANDS`], and why.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "count",
        "boots guests: `signals_while_booted_leave_nothing`",
    ),
    (
        "bill count",
        "boots guests: `signals_while_booted_leave_nothing`",
    ),
];

/// A folder with all that the commands name.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("tmp")).unwrap();
        fs::write(
            place.path("old.json"),
            include_bytes!("../../../docs/bill.json"),
        )
        .unwrap();
        fs::copy(place.path("old.json"), place.path("kept.json")).unwrap();
        fs::create_dir(place.path("bills")).unwrap();
        for number in 0..200 {
            fs::copy(
                place.path("old.json"),
                place.path(&format!("bills/{number}.json")),
            )
            .unwrap();
        }
        let lines = "qemu-1 [000] 1.000000: kvm_exit: reason EPT_VIOLATION rip 0x1 info 1 0\n";
        fs::write(place.path("large.txt"), lines.repeat(400_000)).unwrap();
        mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let plan = |pages: &str, seeds: std::ops::Range<u32>| {
            let seeds: Vec<_> = seeds.map(|seed| format!("'{seed}'")).collect();
            let seeds = seeds.join(", ");
            format!(
                "[axes]\nroute = ['demand']\nseed = [{seeds}]\n[options]\non = 'sim'\npages = '{pages}'\n"
            )
        };
        fs::write(place.path("many.toml"), plan("1", 0..7_000)).unwrap();
        fs::write(place.path("slow.toml"), plan("4096", 0..3)).unwrap();
        place.waiting();
        place
    }

    /// A kernel's tree whose git opens a pipe for its configuration.
    fn waiting(&self) {
        let tree = self.path("waiting");
        fs::create_dir(&tree).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 1\n";
        fs::write(tree.join("Makefile"), makefile).unwrap();
        let git = Command::new("git")
            .arg("init")
            .arg("-q")
            .arg(&tree)
            .status();
        if git.is_ok_and(|status| status.success()) {
            mknodat(CWD, tree.join(".git/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
            let config = tree.join(".git/config");
            let included = fs::read_to_string(&config).unwrap() + "[include]\npath = pipe\n";
            fs::write(config, included).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a command with the default action of every signal: a shell ignores SIGINT in its background jobs.
    fn start(&self, arguments: &str) -> Child {
        let mut command = Command::new("env");
        command
            .args(["--default-signal", env!("CARGO_BIN_EXE_pagetoll")])
            .args(arguments.split(' ').map(|word| word.replace('_', " ")))
            .current_dir(self.0.path())
            .env("PAGETOLL_CACHE", self.path("cache"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Temporary files that a command has left behind.
    fn left(&self) -> Vec<String> {
        let names = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.path().display().to_string())
                .collect()
        };
        let mut left = names(&self.path("tmp"));
        let here = names(self.0.path()).into_iter();
        left.extend(here.filter(|name| name.ends_with(".tmp")));
        left
    }
}

/// Status of a process, once it has ended; `None` after a timeout.
fn ended_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        let status = child.try_wait().unwrap();
        if status.is_some() || began.elapsed() > limit {
            return status;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Exit code of a process, 128 + N after signal N, and the time until it ended; `None` after a timeout, which kills it.
fn end_of(child: &mut Child, limit: Duration) -> (Option<i32>, Duration) {
    let began = Instant::now();
    let Some(status) = ended_within(child, limit) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return (None, limit);
    };
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    (code, began.elapsed())
}

/// Commands and subcommands below `path`, as the program's help lists them.
fn listed(path: &[String]) -> Vec<Vec<String>> {
    let help = Command::new(env!("CARGO_BIN_EXE_pagetoll"))
        .args(path)
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let section = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.is_empty());
    // Text that goes on in another line is further in.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let names = names.filter_map(|line| line.split(' ').next());
    let below = |name: &str| {
        let path: Vec<_> = path.iter().cloned().chain([name.to_owned()]).collect();
        let more = listed(&path);
        std::iter::once(path).chain(more)
    };
    names
        .filter(|&name| name != "help")
        .flat_map(below)
        .collect()
}

/// True if a command line of the table is one of this command.
fn is_tried(path: &str) -> bool {
    let follows = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    COMMANDS
        .iter()
        .any(|line| line.strip_prefix(path).is_some_and(follows))
}

fn every_command_is_tried_or_left_out_for_a_reason() {
    let all = listed(&[]);
    assert!(all.len() > 30, "{all:?}");
    let all: Vec<_> = all.iter().map(|path| path.join(" ")).collect();
    let is_left_out = |path: &str| LEFT_OUT.iter().any(|(command, _)| *command == path);
    let missing: Vec<_> = all
        .iter()
        .filter(|path| !is_tried(path) && !is_left_out(path))
        .collect();
    assert!(missing.is_empty(), "without an entry: {missing:?}");
    for (command, _) in LEFT_OUT {
        let is_known = all.iter().any(|path| path == command);
        assert!(
            is_known && !is_tried(command),
            "{command} is left out for nothing"
        );
    }
}

fn every_route_of_the_simulator_is_tried() {
    let routes = Command::new(env!("CARGO_BIN_EXE_pagetoll"))
        .arg("routes")
        .output()
        .unwrap();
    let routes = String::from_utf8(routes.stdout).unwrap();
    let words = routes
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let modelled: Vec<_> = words
        .filter(|words| words.get(1..3) == Some(&["sim", "yes"]))
        .map(|words| words[0].to_owned())
        .collect();
    assert!(modelled.len() > 5, "{modelled:?}");
    for route in modelled {
        assert!(
            is_tried(&format!("bill {route} --on sim")),
            "bill {route} --on sim"
        );
    }
}

/// A process for each signal and moment, which looks for processes that are left of its own.
#[test]
fn every_command_ends_when_a_signal_asks_for_it() {
    let test = "every_command_ends_when_a_signal_asks_for_it";
    match in_parts(test, SIGNALS.len() * MOMENTS.len()) {
        Parts::One(part) => {
            let (signal, code) = SIGNALS[part % SIGNALS.len()];
            end_every_command(signal, code, MOMENTS[part / SIGNALS.len()]);
        }
        Parts::All(printed) => {
            every_command_is_tried_or_left_out_for_a_reason();
            every_route_of_the_simulator_is_tried();
            let printed = printed.concat();
            println!("{printed}");
            let all = printed
                .lines()
                .filter_map(|line| line.strip_suffix(" hit in all"));
            let hits: u32 = all.map(|hits| hits.parse::<u32>().unwrap()).sum();
            assert!(hits > 60, "{hits} signals came before the end of a command");
        }
    }
}

fn end_every_command(signal: Signal, code: i32, moment: Duration) {
    become_subreaper();
    let place = Place::new();
    let within = std::env::var("WITHIN_MS").map_or(WITHIN, |text| text.parse().unwrap());
    let within = Duration::from_millis(within);
    let (mut wrong, mut hits, mut latest) = (Vec::new(), 0, Duration::ZERO);
    for command in COMMANDS {
        let mut child = place.start(command);
        if ended_within(&mut child, moment).is_some() {
            continue;
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let (ended, took) = end_of(&mut child, within.max(VANISH));
        let what = format!("{command}, {signal:?} after {moment:?}");
        println!("{what}: {ended:?} after {took:.1?}");
        // One that was at its end already ends as it would have.
        if ended == Some(code) {
            hits += 1;
            latest = latest.max(took);
        } else if ended.is_none() || ended > Some(128) {
            wrong.push(format!("{what}: ended with {ended:?}"));
        }
        if took > within {
            wrong.push(format!("{what}: ended after {took:?}"));
        }
        let left = strays(VANISH).into_iter().chain(place.left());
        wrong.extend(left.map(|left| format!("{what}: leaves {left}")));
    }
    println!("{signal:?} after {moment:?}: {latest:.1?} at most");
    println!("{hits} hit in all");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What was there before is not taken for the result of the run.
    let (is_there, is_kept) = ["old.json", "old.json.old"]
        .map(|name| place.path(name).exists())
        .into();
    assert_ne!(is_there, is_kept);
    assert!(is_kept || moment < MOMENTS[2], "the command ran so long");
    jobs_end_with_a_sweep_that_was_killed(&place);
}

fn jobs_end_with_a_sweep_that_was_killed(place: &Place) {
    let mut sweep = place.start("sweep slow.toml --store killed");
    let began = Instant::now();
    let own = Pid::from_child(&sweep).as_raw_nonzero().to_string();
    let has_job = || {
        let children = format!("/proc/{own}/task/{own}/children");
        let threads = fs::read_dir(format!("/proc/{own}/task")).unwrap().flatten();
        let of_thread = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("children"));
        let listed = threads.filter_map(|entry| of_thread(entry).ok());
        listed
            .chain(fs::read_to_string(children))
            .any(|list| !list.is_empty())
    };
    while !has_job() {
        assert!(began.elapsed() < Duration::from_secs(60), "no job begins");
        thread::sleep(Duration::from_millis(5));
    }
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    assert_eq!(strays(VANISH), [""; 0]);
}
