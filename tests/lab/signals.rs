//! Signals in each phase: the program ends at once, with the right exit code, and nothing is left running.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use pagetoll_test_support::skipped_test;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{
    Bench, ensure, folders_of_processes_below, nothing_is_left, processes_below, wait_until,
};

fn started(mut command: Command) -> Result<Child, Failed> {
    Ok(command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?)
}

pub(crate) fn send(child: &Child, signal: Signal) -> Result<(), Failed> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(kill_process(pid.ok_or("no such process")?, signal)?)
}

pub(crate) fn ends_with(mut child: Child, code: i32) -> Result<(), Failed> {
    let ended = std::cell::Cell::new(None);
    let child = std::cell::RefCell::new(&mut child);
    let waited = wait_until("pagetoll to end", || {
        let status = child.borrow_mut().try_wait().ok().flatten();
        ended.set(status.map(|status| status.code()));
        status.is_some()
    });
    if waited.is_err() {
        child.borrow_mut().kill()?;
        waited?;
    }
    match ended.get() {
        Some(Some(found)) if found == code => Ok(()),
        other => Err(format!("expected exit code {code}, got {other:?}").into()),
    }
}

/// Into an empty cache, so that apt and the builds are at work.
pub(crate) fn while_fetching(bench: &Bench) -> Result<(), Failed> {
    for (milliseconds, signal, code) in [
        (50, Signal::INT, 130),
        (700, Signal::INT, 130),
        (1500, Signal::TERM, 143),
    ] {
        let cache = bench.folder.path().join(format!("cache-{milliseconds}"));
        let mut command = bench.small_bill(&[]);
        command.env("PAGETOLL_CACHE", &cache);
        let child = started(command)?;
        wait_until("the cache to be opened", || cache.join("tmp").is_dir())?;
        thread::sleep(Duration::from_millis(milliseconds));
        send(&child, signal)?;
        ends_with(child, code)?;
        nothing_is_left(&cache)?;
    }
    Ok(())
}

/// True if SIGHUP was ignored when this test was started, as under nohup; the program keeps it ignored.
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}

fn booted(bench: &Bench) -> Result<Child, Failed> {
    let child = started(bench.small_bill(&[]))?;
    let qemu = || {
        processes_below(&bench.cache)
            .iter()
            .any(|name| name.starts_with("qemu"))
    };
    wait_until("a guest to be started", qemu)?;
    Ok(child)
}

pub(crate) fn while_booted(bench: &Bench) -> Result<(), Failed> {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if signal == Signal::HUP && hang_ups_are_ignored() {
            skipped_test(
                "signals_while_booted_leave_nothing",
                "SIGHUP is ignored here",
            );
            continue;
        }
        let child = booted(bench)?;
        thread::sleep(Duration::from_millis(500));
        send(&child, signal)?;
        ends_with(child, code)?;
        nothing_is_left(&bench.cache)?;
    }
    Ok(())
}

pub(crate) fn killed(bench: &Bench) -> Result<(), Failed> {
    let mut child = booted(bench)?;
    send(&child, Signal::KILL)?;
    child.wait()?;
    nothing_is_left(&bench.cache)
}

/// The QEMU with two vCPUs, once there is one.
fn qemu_of_two(bench: &Bench) -> Option<Pid> {
    let has_two = |process: &PathBuf| {
        let line = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        line.contains("\0-smp\x002\0")
    };
    let process = folders_of_processes_below(&bench.cache).find(has_two)?;
    let pid = process.file_name()?.to_str()?.parse().ok()?;
    Pid::from_raw(pid)
}

/// Kills a QEMU with a thread for each vCPU, which crashes now and then: the boot is repeated.
pub(crate) fn crashed(bench: &Bench) -> Result<(), Failed> {
    let mut child = bench
        .small_bill(&[])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let qemu = loop {
        match qemu_of_two(bench) {
            Some(qemu) => break qemu,
            None => ensure(child.try_wait()?.is_none(), "no guest has two vCPUs")?,
        }
        thread::sleep(Duration::from_millis(20));
    };
    kill_process(qemu, Signal::SEGV)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_told = said.contains("the boot race is started again, since QEMU failed");
    ensure(output.status.success() && is_told, said)?;
    nothing_is_left(&bench.cache)
}
