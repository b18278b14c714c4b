//! Helpers that tests of several crates share; above all skipped tests, reported as `skipped: TEST: REASON` where CI
//! counts them.
//!
//! libtest has no outcome between passed and failed, and captures what a passing test prints with `eprintln!`. Its
//! capture covers the print macros only (`std::io::set_output_capture`), so a line written to [`std::io::stderr`]
//! itself is always seen. `.ci/run` counts these lines.

#![forbid(unsafe_code)]

mod parts;
mod strays;

use std::env;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;

pub use parts::{Parts, in_parts};
pub use strays::{become_subreaper, strays};

/// Reports the running test as skipped, and returns from it.
///
/// The reason is given as to `format!`. Only for `#[test]` functions: the name is that of the thread, which libtest
/// names after the test.
///
/// ```
/// fn needs_kvm() {
///     if !std::path::Path::new("/dev/kvm").exists() {
///         pagetoll_test_support::skip!("no {}", "/dev/kvm");
///     }
/// }
/// # needs_kvm();
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::skipped(format_args!($($reason)+));
        return;
    }};
}

/// Reports the running test as skipped; for tests that go on, or return a value.
pub fn skipped(reason: impl Display) {
    skipped_test(thread::current().name().unwrap_or("unnamed test"), reason);
}

/// Reports a test by its name, where no thread carries it: harnesses other than libtest, parts of a test.
pub fn skipped_test(test: &str, reason: impl Display) {
    let line = line(test, &reason.to_string());
    // A closed stderr cannot report its own loss.
    let _closed = std::io::stderr().write_all(line.as_bytes());
}

/// Reason to skip a test that starts its own program again, or asks /proc about it: the program is for another
/// processor, and runs below an emulator (qemu-user) that the kernel does not know of.
pub fn emulated() -> Option<&'static str> {
    /// Exit code of a child of posix_spawn(3) that could not become the program: below qemu-user its errno is lost.
    const NOT_STARTED: i32 = 127;
    let program = env::current_exe().ok()?;
    let code = Command::new(program)
        .arg("--list")
        .output()
        .ok()?
        .status
        .code();
    (code == Some(NOT_STARTED))
        .then_some("this program runs below an emulator, and the kernel cannot start it")
}

/// Sorted names of the entries of a folder.
///
/// # Panics
/// A folder that cannot be read, or a name that is not UTF-8.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("a readable entry").file_name();
        name.into_string().expect("a name in UTF-8")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

/// One line, so that counting lines counts tests.
fn line(test: &str, reason: &str) -> String {
    let reason: Vec<_> = reason.split_whitespace().collect();
    format!("skipped: {test}: {}\n", reason.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_several_lines_is_one_line() {
        assert_eq!(line("a_test", "no\n  KVM\n"), "skipped: a_test: no KVM\n");
    }

    /// Run by the next test, with its output captured.
    #[test]
    #[ignore = "run by a_skip_passes_the_capture_of_a_passing_test"]
    fn skips_itself() {
        if env::var_os("PAGETOLL_SKIPS_ITSELF").is_some() {
            eprintln!("captured");
            skip!("not {}", "here");
        }
    }

    #[test]
    fn a_skip_passes_the_capture_of_a_passing_test() {
        if let Some(why) = emulated() {
            skip!("{why}");
        }
        let output = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::skips_itself"])
            .env("PAGETOLL_SKIPS_ITSELF", "1")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr, "skipped: tests::skips_itself: not here\n");
        assert!(output.status.success());
    }
}
