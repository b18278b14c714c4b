//! Guests are hostile: what QEMU may do, and what a console that never ends costs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use pagetoll_test_support::skipped_test;

use crate::bench::{Bench, ensure, nothing_is_left, read_of_processes_below};

/// The most memory and disk that such a guest may cost.
const MOST_BYTES: u64 = 100_000_000;

/// `/proc/PID/status` of every QEMU that works in a folder.
fn statuses(folder: &Path) -> impl Iterator<Item = String> {
    read_of_processes_below(folder, "status")
        .filter(|status| field(status, "Name").starts_with("qemu"))
}

fn field(status: &str, name: &str) -> String {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    value.unwrap_or_default().to_owned()
}

pub(crate) fn qemu(bench: &Bench) -> Result<(), Failed> {
    let mut command = bench.small_bill(&[]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let watched = watch(&mut child, bench);
    if watched.is_err() {
        child.kill()?;
    }
    watched?;
    ensure(child.wait()?.success(), "no bill")?;
    nothing_is_left(&bench.cache)
}

/// Checks every QEMU, until the bill is there.
fn watch(child: &mut Child, bench: &Bench) -> Result<(), Failed> {
    let mut seen = 0;
    while child.try_wait()?.is_none() {
        for status in statuses(&bench.cache) {
            // A QEMU is at work once it has its sandbox; before that it is what its wrappers left.
            if field(&status, "Seccomp") != "2" {
                continue;
            }
            seen += 1;
            let is = |name: &str, expected: &str| {
                let found = field(&status, name);
                ensure(
                    found == expected,
                    format!("{name} {found}, expected {expected}"),
                )
            };
            is("NoNewPrivs", "1")?;
            is("CapEff", "0000000000000000")?;
            is("CapPrm", "0000000000000000")?;
            if rustix::process::geteuid().is_root() {
                is("CapBnd", "0000000000000000")?;
                is("Groups", " ")?;
                ensure(
                    !field(&status, "Uid").split('\t').any(|user| user == "0"),
                    "QEMU is root",
                )?;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    ensure(seen > 0, "no QEMU was seen with its sandbox")
}

fn size_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Answers what is asked before a boot, and then writes to its console as fast as the disk takes it.
const FLOOD: &str = r#"#!/bin/sh
case "$*" in
*"-machine none"*|*--version*) exec REAL "$@" ;;
esac
exec yes "all work and no play" > console.log
"#;

pub(crate) fn flood(bench: &Bench) -> Result<(), Failed> {
    let real =
        ["/usr/bin", "/usr/local/bin"].map(|place| Path::new(place).join("qemu-system-x86_64"));
    let Some(real) = real.iter().find(|path| path.exists()) else {
        skipped_test("a_flooded_console_is_cut_off", "QEMU is in no usual place");
        return Ok(());
    };
    let bin = bench.folder.path().join("flood");
    fs::create_dir(&bin)?;
    let program = bin.join("qemu-system-x86_64");
    fs::write(&program, FLOOD.replace("REAL", &real.to_string_lossy()))?;
    for path in [bench.folder.path(), &bin, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    // A QEMU that restores a guest is asked to before the console is read.
    let mut command = bench.small_bill(&["--cold"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bin.display()));
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let tmp = bench.cache.join("tmp");
    let status = format!("/proc/{}/status", child.id());
    let memory = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kib: u64 = field(&text, "VmHWM")
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap_or(0);
        kib * 1024
    };
    while largest_console(&tmp) == 0 && child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    let before = memory();
    let (mut disk, mut most) = (0, before);
    while child.try_wait()?.is_none() {
        disk = disk.max(largest_console(&tmp));
        most = most.max(memory());
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure(
        output.status.code() == Some(3) && stderr.contains("more than 8 MiB to its console"),
        format!("{:?}: {stderr}", output.status),
    )?;
    ensure(disk < MOST_BYTES, format!("{disk} bytes of console"))?;
    ensure(
        most - before < MOST_BYTES,
        format!("{} bytes of memory", most - before),
    )?;
    let logs = size_below(&bench.cache.join("logs"));
    ensure(logs < MOST_BYTES, format!("{logs} bytes of logs"))?;
    nothing_is_left(&bench.cache)
}

/// The size of the largest console of the boots at work.
fn largest_console(tmp: &Path) -> u64 {
    let mut largest = 0;
    let mut folders = vec![tmp.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if entry.file_name() == "console.log" => largest = largest.max(meta.len()),
                _ => {}
            }
        }
    }
    largest
}
