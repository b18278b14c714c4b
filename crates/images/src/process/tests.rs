//! Every test that kills checks that nothing of the group is left.

use std::os::unix::process::ExitStatusExt;

use pagetoll_backend::{Class, Classified};

use super::*;
use crate::error::QUOTED_LINES;

const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Run {
    Run::new("sh").args(["-c", script])
}

fn group_is_empty(group: u32) -> bool {
    let group = Pid::from_raw(i32::try_from(group).unwrap()).unwrap();
    !stat::has_living_member(group)
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
    while !child.activity().unwrap().asleep {
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
fn dropping_leaves_nobody_of_the_group() {
    let child = shell("sleep 1000 & sleep 1000").start().unwrap();
    let group = child.id();
    thread::sleep(Duration::from_millis(50));
    assert!(!group_is_empty(group));
    drop(child);
    assert!(group_is_empty(group));
}

#[test]
fn unwinding_leaves_nobody_of_the_group() {
    let child = shell("sleep 1000 & sleep 1000").start().unwrap();
    let group = child.id();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _child = child;
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    assert!(group_is_empty(group));
}

#[test]
fn a_leader_that_ends_takes_its_group_along() {
    let mut child = shell("sleep 1000 & exit 0").start().unwrap();
    assert!(child.wait(LONG, &Stop::new()).unwrap().success());
    assert!(group_is_empty(child.id()));
}

#[test]
fn what_ignores_sigterm_is_killed_after_the_grace() {
    let mut child = shell("trap '' TERM; sleep 1000 & while :; do sleep 1; done")
        .start()
        .unwrap();
    thread::sleep(Duration::from_millis(50));
    child.kill();
    assert!(group_is_empty(child.id()));
    assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
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
fn stdout_can_be_taken_and_read_while_it_runs() {
    let mut child = shell("echo hello; sleep 1000").piped().start().unwrap();
    let mut line = String::new();
    let stdout = child.take_stdout().unwrap();
    io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
    assert_eq!(line, "hello\n");
    assert!(child.try_wait().unwrap().is_none());
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
#[ignore = "run by a_child_dies_with_a_parent_that_is_killed"]
fn starts_a_child_and_waits() {
    let child = Run::new("sleep").arg("1000").start().unwrap();
    println!("child {}", child.id());
    thread::sleep(LONG);
}

#[test]
fn a_child_dies_with_a_parent_that_is_killed() {
    if death_signal_setter().is_none() {
        pagetoll_test_support::skip!("no setpriv that knows --pdeathsig");
    }
    let name = "process::tests::starts_a_child_and_waits";
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", name])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = io::BufRead::lines(io::BufReader::new(parent.stdout.take().unwrap()));
    let child = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("child ")?.1.trim().parse().ok());
    let child: u32 = child.unwrap();
    // setpriv sets the signal before it becomes the program, which takes a moment.
    thread::sleep(Duration::from_millis(300));
    assert!(!group_is_empty(child));
    parent.kill().unwrap();
    parent.wait().unwrap();
    thread::sleep(Duration::from_millis(300));
    assert!(group_is_empty(child));
}
