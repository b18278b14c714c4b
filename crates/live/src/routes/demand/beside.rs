//! The kernel's own `demand_paging_test`, run beside this bench: same memory, vCPUs and readers, ring 0.
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::Mechanism;
use super::crew::patience;
use super::order::{Memory, Request, Ring, Sequence, Touch};
use crate::LiveError;
use crate::pager::{Mode, Sharing};

const EXPECTED: &str =
    "expected the kernel's demand_paging_test (tools/testing/selftests/kvm), built";
/// What the line with the rate begins with, and what follows the number.
const RATE: (&str, &str) = ("Overall demand paging rate:", "pgs/sec");
/// How often it is looked whether the test has ended.
const POLL: Duration = Duration::from_millis(20);
/// More than the test ever says.
const MOST_OUTPUT: u64 = 64 << 10;

/// Refuses what cannot be run, and orders that the test cannot follow.
pub(super) fn check(request: &Request) -> Result<(), LiveError> {
    let Some(program) = &request.beside else {
        return Ok(());
    };
    check_program(program)?;
    let told: [(bool, &str); 5] = [
        (request.ring == Ring::Zero, "--ring 0, in which it runs"),
        (request.touch == Touch::Write, "--access write, as it does"),
        (
            request.sequence == Sequence::Sequential,
            "--order sequential, as it does",
        ),
        (
            source(request.memory).is_some(),
            "--memory anonymous, shmem or thp",
        ),
        (
            Mechanism::ALL.iter().any(|&m| is_ordered(request, m)),
            "--mechanism uffd or kernel, and --batch 1: it has no other",
        ),
    ];
    match told.iter().find(|(is_so, _)| !is_so) {
        Some((_, expected)) => Err(LiveError::BadOrder(format!(
            "--beside: expected {expected}"
        ))),
        None => Ok(()),
    }
}

fn check_program(program: &Path) -> Result<(), LiveError> {
    let bad = |why: String| {
        LiveError::BadOrder(format!("--beside {}: {why}; {EXPECTED}", program.display()))
    };
    let found = fs::metadata(program).map_err(|error| bad(error.to_string()))?;
    match (found.is_file(), found.permissions().mode() & 0o111) {
        (false, _) => Err(bad("no regular file".into())),
        (true, 0) => Err(bad("not executable".into())),
        (true, _) => Ok(()),
    }
}

/// Whether the test has something to stand beside: mechanisms of its own, page by page.
pub(super) fn is_ordered(request: &Request, mechanism: Mechanism) -> bool {
    let order = &request.order;
    let is_known = match mechanism {
        Mechanism::Kernel => true,
        Mechanism::Uffd => order.batches.contains(&1),
        Mechanism::Populated | Mechanism::Exit | Mechanism::ExitGmem => false,
    };
    is_known && order.mechanisms.iter().any(|name| name == mechanism.name())
}

/// What the test calls a kind of memory; `None` where it has none that is the same.
const fn source(memory: Memory) -> Option<&'static str> {
    match memory {
        Memory::Anonymous => Some("anonymous"),
        Memory::Shmem => Some("shmem"),
        Memory::Thp => Some("anonymous_thp"),
        Memory::Hugetlb2m | Memory::Hugetlb1g => None,
    }
}

/// The test's arguments for this mechanism and number of vCPUs.
fn arguments(request: &Request, mechanism: Mechanism, vcpus: usize) -> Vec<String> {
    let kib = request.order.pages.get() * 4;
    let mut arguments = vec![
        format!("-v{vcpus}"),
        format!("-b{kib}k"),
        format!("-s{}", source(request.memory).unwrap_or_default()),
    ];
    if mechanism == Mechanism::Uffd {
        let mode = match request.mode {
            Mode::Missing => "MISSING",
            Mode::Minor => "MINOR",
        };
        arguments.push(format!("-u{mode}"));
        arguments.push(format!("-r{}", request.readers));
        if request.sharing == Sharing::One {
            arguments.push("-a".into());
        }
    }
    arguments
}

/// Runs the test once; its pages of all vCPUs together for each second.
pub(super) fn run(
    (request, program): (&Request, &Path),
    (mechanism, vcpus): (Mechanism, usize),
    stop: &AtomicBool,
) -> Result<f64, LiveError> {
    let mut command = Command::new(program);
    command
        .args(arguments(request, mechanism, vcpus))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // SAFETY: prctl(2) is a system call alone, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let spawned = command.spawn();
    let mut child = Killed(spawned.map_err(|error| failed(program, &error.to_string()))?);
    let deadline = Instant::now() + patience(request.order.pages.get() * vcpus as u64);
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(LiveError::system("waitpid"))? {
            break status;
        }
        if stop.load(Ordering::SeqCst) {
            return Err(LiveError::Stopped);
        }
        if Instant::now() > deadline {
            return Err(failed(program, "did not end in time"));
        }
        thread::sleep(POLL);
    };
    let text = child.output()?;
    match status.code() {
        Some(0) => rate(&text).ok_or_else(|| {
            let (begin, end) = RATE;
            let why = format!("no line \"{begin} NUMBER {end}\" in its output");
            failed(program, &why)
        }),
        _ => Err(failed(program, &format!("{status}: {}", last_line(&text)))),
    }
}

/// The rate that the test tells of last: it may try several guest modes.
fn rate(text: &str) -> Option<f64> {
    let (begin, end) = RATE;
    let number = |line: &str| -> Option<f64> {
        let number = line.trim().strip_prefix(begin)?.trim().strip_suffix(end)?;
        let rate: f64 = number.trim().parse().ok()?;
        (rate.is_finite() && rate > 0.0).then_some(rate)
    };
    text.lines().rev().find_map(number)
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing")
}

fn failed(program: &Path, why: &str) -> LiveError {
    LiveError::environment(format!("{}: {why}", program.display()), EXPECTED)
}

/// A child that does not outlive this.
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
    use super::*;
    use crate::routes::demand::tests::request;

    /// What the test of Linux 6.12.117 printed.
    const SAID: &str = "Random seed: 0x6b8b4567\nTesting guest mode: PA-bits:ANY, VA-bits:48,  4K pages\n\
        Total guest execution time:\t1.259380909s\nPer-vcpu demand paging rate:\t13009.566751 pgs/sec/vcpu\n\
        Overall demand paging rate:\t26019.133502 pgs/sec\n";

    fn ordered(program: &Path) -> Request {
        Request {
            touch: Touch::Write,
            sequence: Sequence::Sequential,
            ring: Ring::Zero,
            beside: Some(program.to_path_buf()),
            ..request(100)
        }
    }

    fn script(text: &str) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn ran(text: &str) -> Result<f64, LiveError> {
        let script = script(text);
        let stop = AtomicBool::new(false);
        run((&ordered(&script), &script), (Mechanism::Uffd, 2), &stop)
    }

    #[test]
    fn the_rate_is_that_of_all_vcpus() {
        assert_eq!(rate(SAID), Some(26_019.133_502));
        assert_eq!(rate("Overall demand paging rate:\tfast pgs/sec"), None);
        assert_eq!(rate("Overall demand paging rate:\t-1 pgs/sec"), None);
        assert_eq!(rate(""), None);
    }

    #[test]
    fn the_test_is_told_the_same_memory_vcpus_and_readers() {
        let request = ordered(Path::new("/bin/true"));
        let uffd = arguments(&request, Mechanism::Uffd, 4).join(" ");
        assert_eq!(uffd, "-v4 -b400k -sanonymous -uMISSING -r1 -a");
        let kernel = arguments(&request, Mechanism::Kernel, 1).join(" ");
        assert_eq!(kernel, "-v1 -b400k -sanonymous");
    }

    #[test]
    fn what_the_test_says_is_understood_or_told() {
        assert_eq!(
            ran(&format!("printf '{}'", SAID.replace('\n', "\\n"))).unwrap(),
            26_019.133_502
        );
        let told = |text: &str| {
            let error = ran(text).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            error.to_string()
        };
        assert!(told("echo hello").contains("no line \"Overall demand paging rate:"));
        let skipped = told("echo no KVM here; exit 4");
        assert!(skipped.contains("exit status: 4: no KVM here"), "{skipped}");
        assert!(told("kill -9 $$").contains("signal"));
    }

    #[test]
    fn who_asks_to_stop_does_not_wait_for_the_test() {
        let script = script("sleep 600");
        let stop = AtomicBool::new(true);
        let ran = run((&ordered(&script), &script), (Mechanism::Uffd, 1), &stop);
        assert!(matches!(ran, Err(LiveError::Stopped)));
    }

    #[test]
    fn what_cannot_stand_beside_it_is_refused() {
        let refused = |request: Request, word: &str| {
            let error = check(&request).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert_eq!(error.exit_code(), 2);
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
                memory: Memory::Hugetlb2m,
                ..good()
            },
            "--memory",
        );
        refused(
            Request {
                touch: Touch::Read,
                ..good()
            },
            "--access write",
        );
        let mut exits = good();
        exits.order.mechanisms = vec!["exit".into()];
        refused(exits, "--mechanism uffd");
    }
}
