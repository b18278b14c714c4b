//! The kernel's own `demand_paging_test`, run for comparison: same memory, vCPUs and readers, ring 0.
//!
//! It is no part of pagetoll; its path is given. Source: Linux tools/testing/selftests/kvm/demand_paging_test.c (6.12),
//! whose options and last line of output are used. Its time begins before its vCPU threads are made, its guest maps memory
//! by pages of 4 KiB (lib/memstress.c, `virt_map`), which KVM's shadow page tables follow; it verifies no content. Its
//! vCPU threads spin until all have started: under SCHED_FIFO on as many CPUs it never ends.

#![allow(unsafe_code, reason = "what a child does before it becomes the test")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{Access, Faults, MemoryKind, Ring, Sequence, Sharing};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::line::Line;
use super::request::Request;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::patience::{Patience, patience};

const EXPECTED: &str =
    "expected the kernel's demand_paging_test (tools/testing/selftests/kvm), built";
/// The line with the rate: this, the number, its unit.
const RATE: &str = "Overall demand paging rate:";
const RATE_UNIT: &str = "pgs/sec";
/// Interval between checks whether the test has ended.
const POLL: Duration = Duration::from_millis(20);
/// More than the test ever says.
const MOST_OUTPUT: u64 = 64 << 10;

/// Refuses what cannot be run, and orders that the test cannot follow.
pub(super) fn check(request: &Request) -> Result<(), LiveError> {
    let Some(program) = &request.compare_selftest else {
        return Ok(());
    };
    check_program(program)?;
    let required: [(bool, &str); 5] = [
        (request.ring == Ring::Zero, "--ring 0, in which it runs"),
        (
            request.access == Access::Write,
            "--access write, as it does",
        ),
        (
            request.sequence == Sequence::Sequential,
            "--order sequential, as it does",
        ),
        (
            source(request.memory).is_some(),
            "--memory anonymous, shmem or thp",
        ),
        (
            !lines(request).is_empty(),
            "--mechanism uffd or kernel, and --batch 1: it has no other",
        ),
    ];
    match required.iter().find(|(is_so, _)| !is_so) {
        Some((_, expected)) => Err(LiveError::BadOrder(format!(
            "--compare-selftest: expected {expected}"
        ))),
        None => Ok(()),
    }
}

fn check_program(program: &Path) -> Result<(), LiveError> {
    let bad = |why: String| {
        LiveError::BadOrder(format!(
            "--compare-selftest {}: {why}; {EXPECTED}",
            program.display()
        ))
    };
    let found = fs::metadata(program).map_err(|error| bad(error.to_string()))?;
    match (found.is_file(), found.permissions().mode() & 0o111) {
        (false, _) => Err(bad("no regular file".into())),
        (true, 0) => Err(bad("not executable".into())),
        (true, _) => Ok(()),
    }
}

/// The lines that the test is run for: those of mechanisms that it has too, page by page.
pub(super) fn lines(request: &Request) -> Vec<Line> {
    let mut lines = match request.compare_selftest {
        Some(_) => request.lines(),
        None => Vec::new(),
    };
    lines.retain(|line| line.batch == 1 && has(line.mechanism));
    lines
}

/// Returns whether the test has the mechanism: it resolves faults by the kernel or by a reader, in no other way.
const fn has(mechanism: Demand) -> bool {
    matches!(mechanism, Demand::Kernel | Demand::Uffd)
}

/// The test's name for a kind of memory; `None` where it has none that is equal.
const fn source(memory: MemoryKind) -> Option<&'static str> {
    match memory {
        MemoryKind::Anonymous => Some("anonymous"),
        MemoryKind::Shmem => Some("shmem"),
        MemoryKind::Thp => Some("anonymous_thp"),
        MemoryKind::Hugetlb2m | MemoryKind::Hugetlb1g => None,
    }
}

/// The test's arguments for this line.
fn arguments(request: &Request, line: Line) -> Vec<String> {
    let kib = request.order.pages.get() * 4;
    let mut arguments = vec![
        format!("-v{}", line.vcpus),
        format!("-b{kib}k"),
        format!("-s{}", source(request.memory).unwrap_or_default()),
    ];
    if line.mechanism == Demand::Uffd {
        let faults = match request.faults {
            Faults::Missing => "MISSING",
            Faults::Minor => "MINOR",
        };
        arguments.push(format!("-u{faults}"));
        arguments.push(format!("-r{}", request.readers));
        if request.sharing == Sharing::One {
            arguments.push("-a".into());
        }
    }
    arguments
}

/// Runs the test once; its pages of all vCPUs together for each second.
pub(super) fn run(
    request: &Request,
    program: &Path,
    line: Line,
    stop: &Stop,
) -> Result<f64, LiveError> {
    let mut command = Command::new(program);
    command
        .args(arguments(request, line))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // SAFETY: prctl(2) is a system call alone, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let spawned = command.spawn();
    let mut child = Killed(spawned.map_err(|error| failed(program, &error.to_string()))?);
    let pages = request.order.pages.get() * u64::from(line.vcpus);
    let mut patience = Patience::new(patience(pages));
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(LiveError::system("waitpid"))? {
            break status;
        }
        stop.check()?;
        if patience.is_over() {
            return Err(failed(program, "did not end in time"));
        }
        thread::sleep(POLL);
    };
    let text = child.output()?;
    match status.code() {
        Some(0) => rate(&text).ok_or_else(|| {
            let why = format!("no line \"{RATE} NUMBER {RATE_UNIT}\" in its output");
            failed(program, &why)
        }),
        _ => Err(failed(program, &format!("{status}: {}", last_line(&text)))),
    }
}

/// The last rate in the output: the test may try several guest modes.
fn rate(text: &str) -> Option<f64> {
    let number = |line: &str| -> Option<f64> {
        let number = line
            .trim()
            .strip_prefix(RATE)?
            .trim()
            .strip_suffix(RATE_UNIT)?;
        let rate: f64 = number.trim().parse().ok()?;
        (rate.is_finite() && rate > 0.0).then_some(rate)
    };
    text.lines().rev().find_map(number)
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no output")
}

fn failed(program: &Path, why: &str) -> LiveError {
    LiveError::environment(format!("{}: {why}", program.display()), EXPECTED)
}

/// A child that is killed and reaped when this is dropped.
struct Killed(Child);

impl Killed {
    fn output(&mut self) -> Result<String, LiveError> {
        let mut bytes = Vec::new();
        if let Some(stdout) = self.0.stdout.take() {
            let read = stdout.take(MOST_OUTPUT).read_to_end(&mut bytes);
            read.map_err(LiveError::system("read of the test's output"))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already, and is then only waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified, Stopped};

    use super::*;
    use crate::tests::request;

    /// Output of the test of Linux 6.12.117.
    const SAID: &str = "Random seed: 0x6b8b4567\nTesting guest mode: PA-bits:ANY, VA-bits:48,  4K pages\n\
        Total guest execution time:\t1.259380909s\nPer-vcpu demand paging rate:\t13009.566751 pgs/sec/vcpu\n\
        Overall demand paging rate:\t26019.133502 pgs/sec\n";

    fn ordered(program: &Path) -> Request {
        Request {
            access: Access::Write,
            sequence: Sequence::Sequential,
            ring: Ring::Zero,
            compare_selftest: Some(program.to_path_buf()),
            ..request(100)
        }
    }

    fn script(text: &str) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn line(mechanism: Demand, vcpus: u32) -> Line {
        Line {
            mechanism,
            vcpus,
            batch: 1,
            pages: 100,
        }
    }

    fn ran(text: &str) -> Result<f64, LiveError> {
        let script = script(text);
        let line = line(Demand::Uffd, 2);
        run(&ordered(&script), &script, line, &Stop::new())
    }

    #[test]
    fn the_rate_is_that_of_all_vcpus() {
        assert_eq!(rate(SAID), Some(26_019.133_502));
        assert_eq!(rate("Overall demand paging rate:\tfast pgs/sec"), None);
        assert_eq!(rate("Overall demand paging rate:\t-1 pgs/sec"), None);
        assert_eq!(rate(""), None);
    }

    #[test]
    fn the_test_gets_the_same_memory_vcpus_and_readers() {
        let request = ordered(Path::new("/bin/true"));
        let uffd = arguments(&request, line(Demand::Uffd, 4)).join(" ");
        assert_eq!(uffd, "-v4 -b400k -sanonymous -uMISSING -r1 -a");
        let kernel = arguments(&request, line(Demand::Kernel, 1)).join(" ");
        assert_eq!(kernel, "-v1 -b400k -sanonymous");
    }

    #[test]
    fn output_that_cannot_be_parsed_is_reported() {
        assert_eq!(
            ran(&format!("printf '{}'", SAID.replace('\n', "\\n"))).unwrap(),
            26_019.133_502
        );
        let failure = |text: &str| {
            let error = ran(text).unwrap_err();
            assert_eq!(error.class(), Class::Environment);
            error.to_string()
        };
        assert!(failure("echo hello").contains("no line \"Overall demand paging rate:"));
        let skipped = failure("echo no KVM here; exit 4");
        assert!(skipped.contains("exit status: 4: no KVM here"), "{skipped}");
        assert!(failure("kill -9 $$").contains("signal"));
    }

    #[test]
    fn a_stop_does_not_wait_for_the_test() {
        let script = script("sleep 600");
        let stop = Stop::new();
        stop.request();
        let ran = run(&ordered(&script), &script, line(Demand::Uffd, 1), &stop);
        assert!(matches!(ran, Err(LiveError::Stopped(Stopped))));
    }

    #[test]
    fn orders_that_the_test_cannot_follow_are_refused() {
        let refused = |request: Request, word: &str| {
            let error = check(&request).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(error.class(), Class::BadInput);
        };
        let good = || ordered(Path::new("/bin/sh"));
        assert!(check(&good()).is_ok());
        refused(ordered(Path::new("/no/such")), "/no/such");
        refused(ordered(Path::new("/etc/passwd")), "not executable");
        refused(ordered(Path::new("/")), "no regular file");
        refused(
            Request {
                ring: Ring::Three,
                ..good()
            },
            "--ring 0",
        );
        refused(
            Request {
                memory: MemoryKind::Hugetlb2m,
                ..good()
            },
            "--memory",
        );
        refused(
            Request {
                access: Access::Read,
                ..good()
            },
            "--access write",
        );
        let mut exits = good();
        exits.order.mechanisms = vec![Demand::Exit.into()];
        refused(exits, "--mechanism uffd");
    }
}
