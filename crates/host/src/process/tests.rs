//! Every test that kills checks that nothing is left, wherever it went.

use std::os::unix::process::ExitStatusExt;
use std::time::Instant;
use std::{fs, io, thread};

use pagetoll_backend::{Class, Classified};

use super::child::STDERR_KEPT;
use super::*;
use crate::error::QUOTED_LINES;

const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Run {
    Run::new("sh").args(["-c", script])
}

/// Both ways of holding children together, as far as this machine allows.
fn containments() -> Vec<&'static Containment> {
    let both = [Containment::namespace(), Some(Containment::marked())];
    if both[0].is_none() {
        pagetoll_test_support::skipped_test("namespaces", "no PID namespaces are allowed here");
    }
    let kept = |containment| -> &'static Containment { Box::leak(Box::new(containment)) };
    both.into_iter().flatten().map(kept).collect()
}

/// A time to sleep that no other process of this machine sleeps, to find those that do.
fn odd_time() -> String {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("1000.{}{number:03}", std::process::id())
}

fn sleepers(time: &str) -> usize {
    let lines = stat::processes().map(|process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero()));
        line.unwrap_or_default()
    });
    let sleeps = format!("sleep\0{time}\0");
    lines.filter(|line| line == sleeps.as_bytes()).count()
}

fn await_sleepers(time: &str, count: usize) {
    let began = Instant::now();
    while sleepers(time) != count {
        assert!(began.elapsed() < LONG, "not {count} that sleep {time}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// One sleeps in the group, one is an orphan that leads a session of its own.
fn escaping(time: &str, and_then: &str) -> Run {
    shell(&format!(
        "sleep {time} & setsid --fork sleep {time}; {and_then}"
    ))
}

#[test]
fn captures_stdout_of_a_good_end() {
    let output = run_to_end(&shell("echo out; echo err >&2"), LONG, &Stop::new()).unwrap();
    assert_eq!(
        (output.text().as_str(), output.stderr_tail.as_str()),
        ("out\n", "err\n")
    );
}

#[test]
fn an_error_has_command_code_and_last_words() {
    let error = run_to_end(&shell("echo bad luck >&2; exit 7"), LONG, &Stop::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sh -c 'echo bad luck >&2; exit 7': exited with code 7\n  bad luck"
    );
    assert_eq!(error.class(), Class::Environment);
}

#[test]
fn an_error_names_the_signal() {
    let error = run_to_end(&shell("kill -USR1 $$"), LONG, &Stop::new()).unwrap_err();
    assert!(
        error.to_string().contains("was ended by signal 10"),
        "{error}"
    );
}

#[test]
fn an_error_names_what_is_not_installed() {
    let error = run_to_end(&Run::new("pagetoll-no-such-tool"), LONG, &Stop::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("pagetoll-no-such-tool is not installed"),
        "{error}"
    );
    assert_eq!(error.class(), Class::Environment);
}

#[test]
fn kills_what_runs_too_long() {
    let limit = Duration::from_millis(100);
    let error =
        run_to_end(&shell("echo waiting >&2; sleep 1000"), limit, &Stop::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("timed out after 0.1 s\n  waiting"),
        "{error}"
    );
}

#[test]
fn a_child_that_waits_is_asleep() {
    let child = Run::new("sleep").arg("1000").start().unwrap();
    let began = Instant::now();
    while !child.activity().asleep {
        assert!(began.elapsed() < LONG, "sleep never sleeps");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn kills_when_asked_to_stop() {
    let stop = Stop::new();
    let theirs = stop.clone();
    let asker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        theirs.request();
    });
    let error = run_to_end(&shell("sleep 1000"), LONG, &stop).unwrap_err();
    asker.join().unwrap();
    assert!(matches!(error, Error::Stopped));
}

#[test]
fn a_child_that_failed_after_the_request_was_stopped_with_it() {
    let stop = Stop::new();
    stop.request();
    for (script, stopped) in [("kill -TERM $$", true), ("exit 1", true), ("exit 0", false)] {
        let mut child = shell(script).start().unwrap();
        while child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let ended = child.wait(LONG, &stop);
        assert_eq!(
            matches!(ended, Err(Error::Stopped)),
            stopped,
            "{script}: {ended:?}"
        );
    }
}

#[test]
fn the_activity_of_a_child_is_that_of_the_program_behind_its_wrappers() {
    for containment in containments() {
        let child = shell("while :; do :; done")
            .start_in(containment, Stdio::null(), None)
            .unwrap();
        let began = Instant::now();
        while child.activity().cpu < Duration::from_millis(200) || child.activity().asleep {
            assert!(began.elapsed() < LONG, "{:?}", child.activity());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn codes_and_signals_pass_through_the_wrappers() {
    for containment in containments() {
        let ended = |script: &str| {
            let mut child = shell(script)
                .start_in(containment, Stdio::null(), None)
                .unwrap();
            child.wait(LONG, &Stop::new()).unwrap()
        };
        assert_eq!(ended("exit 7").code(), Some(7));
        for signal in [6, 9, 11, 15] {
            assert_eq!(ended(&format!("kill -{signal} $$")).signal(), Some(signal));
        }
    }
}

#[test]
fn what_left_session_and_parent_is_gone_after_drop_unwinding_and_time_limit() {
    for containment in containments() {
        let time = odd_time();
        let started = || {
            let child = escaping(&time, "sleep 1000")
                .start_in(containment, Stdio::null(), None)
                .unwrap();
            await_sleepers(&time, 2);
            child
        };
        drop(started());
        assert_eq!(sleepers(&time), 0, "after drop, {containment:?}");
        let child = started();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _child = child;
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        assert_eq!(sleepers(&time), 0, "after unwinding, {containment:?}");
        let mut child = started();
        child
            .wait(Duration::from_millis(1), &Stop::new())
            .unwrap_err();
        assert_eq!(sleepers(&time), 0, "after a time limit, {containment:?}");
    }
}

#[test]
fn a_program_that_ends_takes_along_what_left_its_group() {
    for containment in containments() {
        let time = odd_time();
        let mut child = escaping(&time, "exit 0")
            .start_in(containment, Stdio::null(), None)
            .unwrap();
        assert!(child.wait(LONG, &Stop::new()).unwrap().success());
        assert_eq!(sleepers(&time), 0, "{containment:?}");
    }
}

#[test]
fn what_ignores_sigterm_is_killed_after_the_grace() {
    for containment in containments() {
        let time = odd_time();
        let script = format!("trap '' TERM; sleep {time} & while :; do sleep 1; done");
        let mut child = shell(&script)
            .start_in(containment, Stdio::null(), None)
            .unwrap();
        await_sleepers(&time, 1);
        child.kill();
        assert_eq!(sleepers(&time), 0);
        assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    }
}

#[test]
fn what_follows_sigterm_is_not_kept_waiting() {
    for containment in containments() {
        let time = odd_time();
        let sleep = shell(&format!("exec sleep {time}"));
        let mut child = sleep.start_in(containment, Stdio::null(), None).unwrap();
        await_sleepers(&time, 1);
        child.kill();
        assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(15));
    }
}

#[test]
fn a_child_sees_what_is_listed_of_the_environment_and_what_was_added() {
    // CARGO_MANIFEST_DIR and more is set by cargo for every test.
    let output = run_to_end(&Run::new("env").env("ADDED", "1"), LONG, &Stop::new()).unwrap();
    let text = output.text();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert!(
        names.contains(&"PATH") && names.contains(&"ADDED"),
        "{names:?}"
    );
    assert!(text.contains("LC_ALL=C\n"), "{text}");
    let foreign: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("CARGO"))
        .collect();
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && foreign.is_empty(),
        "{foreign:?}"
    );
}

#[test]
fn a_log_file_gets_both_streams_and_is_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("build.log");
    let error = run_to_end(
        &shell("echo one; echo two >&2; false").log(&log),
        LONG,
        &Stop::new(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("exited with code 1\n  one\n  two"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "one\ntwo\n");
}

#[test]
fn stdout_can_be_a_file() {
    let mut file = tempfile::tempfile().unwrap();
    let stdout = file.try_clone().unwrap();
    let child = shell("echo hello").start_into(stdout.into()).unwrap();
    let output = child.finish(LONG, &Stop::new()).unwrap();
    assert!(output.stdout.is_empty());
    io::Seek::rewind(&mut file).unwrap();
    assert_eq!(io::read_to_string(file).unwrap(), "hello\n");
}

#[test]
fn only_the_last_lines_of_stderr_are_kept_and_quoted() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1";
    let error = run_to_end(&shell(script), LONG, &Stop::new()).unwrap_err();
    let Error::Process(process) = &error else {
        panic!("{error}")
    };
    assert!(process.stderr_tail.len() <= STDERR_KEPT);
    assert_eq!(error.to_string().lines().count(), 1 + QUOTED_LINES);
    assert!(error.to_string().ends_with("line 19999"));
}

/// Not a test by itself: the parent that the next test kills.
#[test]
#[ignore = "run by a_killed_parent_takes_along_all_that_its_child_started"]
fn starts_a_child_and_waits() {
    let time = odd_time();
    let _child = escaping(&time, "sleep 1000").start().unwrap();
    await_sleepers(&time, 2);
    println!("sleeps {time}");
    thread::sleep(LONG);
}

#[test]
fn a_killed_parent_takes_along_all_that_its_child_started() {
    if let Some(why) = pagetoll_test_support::emulated() {
        pagetoll_test_support::skip!("{why}");
    }
    if !matches!(Containment::here(), Containment::Namespace(_)) {
        pagetoll_test_support::skip!("no PID namespaces are allowed here");
    }
    let name = "process::tests::starts_a_child_and_waits";
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", name])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = io::BufRead::lines(io::BufReader::new(parent.stdout.take().unwrap()));
    let time = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("sleeps ")?.1.trim().to_owned()));
    let time = time.unwrap();
    assert_eq!(sleepers(&time), 2);
    parent.kill().unwrap();
    parent.wait().unwrap();
    await_sleepers(&time, 0);
}
