//! Processes that outlive the command that started them.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

/// Makes every orphan among this process's descendants its child, so that none escapes [`strays`].
///
/// # Panics
/// A kernel without `PR_SET_CHILD_SUBREAPER`.
pub fn become_subreaper() {
    set_child_subreaper(Some(getpid())).expect("a child subreaper");
}

/// Names of the children that still exist after `within`; they are killed, and so are their children, which follow them.
#[must_use]
pub fn strays(within: Duration) -> Vec<String> {
    let mut found = Vec::new();
    let mut began = Instant::now();
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let left = children();
        if left.is_empty() {
            return found;
        }
        if began.elapsed() > within {
            for (process, name) in left {
                let _gone = kill_process(process, Signal::KILL);
                found.push(format!("process {process} {name}"));
            }
            began = Instant::now();
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Children of this process, with their names.
fn children() -> Vec<(Pid, String)> {
    let own = getpid().as_raw_nonzero().to_string();
    let child = |path: PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let (process, rest) = stat.split_once(" (")?;
        let (name, fields) = rest.rsplit_once(") ")?;
        let parent = fields.split(' ').nth(1)?;
        let process = Pid::from_raw(process.parse().ok()?)?;
        (parent == own).then(|| (process, name.to_owned()))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| child(entry.path())).collect()
}
