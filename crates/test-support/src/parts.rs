//! Tests in parts, each a process of its own beside the others: for a test that asks for what its process has taken or
//! started.

use std::env;
use std::process::{Child, Command, Stdio};

/// The variable that names the part to a process.
const PART: &str = "PAGETOLL_TEST_PART";

/// A test in parts.
#[derive(Debug)]
pub enum Parts {
    /// This process runs one of them, from 0 on.
    One(usize),
    /// All have passed, and printed this.
    All(Vec<String>),
}

/// Runs a test's parts, or says which of them this process is.
///
/// # Panics
/// A part that fails, with what it printed; a program without a test of this name.
#[must_use]
pub fn in_parts(test: &str, parts: usize) -> Parts {
    if let Ok(part) = env::var(PART) {
        return Parts::One(part.parse().expect("a number"));
    }
    let started: Vec<Child> = (0..parts).map(|part| start(test, part)).collect();
    let ended: Vec<_> = started
        .into_iter()
        .map(|child| child.wait_with_output().expect("a part that was started"))
        .collect();
    let printed = ended.into_iter().map(|output| {
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let ran = output.status.success() && printed.contains("test result: ok. 1 passed");
        assert!(ran, "{test}: {}: {printed}", output.status);
        printed
    });
    Parts::All(printed.collect())
}

fn start(test: &str, part: usize) -> Child {
    Command::new(env::current_exe().expect("a path of this program"))
        .args(["--exact", test, "--nocapture"])
        .env(PART, part.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program, started again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_runs_in_a_process_of_its_own() {
        if let Some(why) = crate::emulated() {
            crate::skip!("{why}");
        }
        let test = "parts::tests::each_part_runs_in_a_process_of_its_own";
        match in_parts(test, 3) {
            Parts::One(part) => println!("part {part} of {}", std::process::id()),
            Parts::All(printed) => {
                let line = |text: &String| {
                    let mut lines = text.lines();
                    lines
                        .find(|line| line.starts_with("part "))
                        .unwrap()
                        .to_owned()
                };
                let mut lines: Vec<_> = printed.iter().map(line).collect();
                for (part, line) in lines.iter().enumerate() {
                    assert!(line.starts_with(&format!("part {part} of ")), "{line}");
                }
                lines.dedup_by_key(|line| line.rsplit(' ').next().unwrap_or_default().to_owned());
                assert_eq!(lines.len(), 3);
                let unknown = std::panic::catch_unwind(|| in_parts("no_test", 1));
                assert!(unknown.is_err());
            }
        }
    }
}
