//! State of processes by /proc: proc_pid_stat(5).

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::process::Pid;

/// USER_HZ, the unit of times in /proc: 100 on every architecture that pagetoll runs on, by the kernel's ABI.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of the processes of a group, and whether any wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// CPU time of all threads, user and system, of ended threads too, but of no ended process. Resolution: 10 ms.
    pub cpu: Duration,
    /// Every thread sleeps: none runs, waits for a CPU or waits for a disk.
    pub asleep: bool,
}

impl Activity {
    /// Reads the activity of a group whose leader was not reaped yet.
    pub(super) fn read(group: Pid) -> Self {
        let mut activity = Self {
            cpu: Duration::ZERO,
            asleep: true,
        };
        // A process or thread that ends while this looks wants nothing.
        for (folder, process) in
            all().filter(|(_, stat)| stat.group == group.as_raw_nonzero().get())
        {
            activity.cpu += process.cpu;
            let threads = fs::read_dir(folder.join("task"))
                .into_iter()
                .flatten()
                .flatten();
            activity.asleep &= threads
                .filter_map(|thread| read(&thread.path()).ok())
                .all(|thread| matches!(thread.state, 'S' | 'Z' | 'X'));
        }
        activity
    }
}

/// Returns whether a process of this group exists that is not a zombie.
///
/// `kill(-group, 0)` alone does not say: it also succeeds on zombies, and orphaned ones stay for good where process 1
/// does not reap, as in many containers.
pub(super) fn has_living_member(group: Pid) -> bool {
    let lives = |stat: Stat| stat.group == group.as_raw_nonzero().get() && stat.lives();
    rustix::process::test_kill_process_group(group).is_ok() && all().any(|(_, stat)| lives(stat))
}

/// The living children of a process.
pub(super) fn children_of(parent: Pid) -> impl Iterator<Item = Pid> {
    all()
        .filter(move |(_, stat)| stat.parent == parent.as_raw_nonzero().get() && stat.lives())
        .filter_map(|(folder, _)| number(&folder))
}

/// All processes, zombies included.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    all().filter_map(|(folder, _)| number(&folder))
}

fn number(folder: &Path) -> Option<Pid> {
    Pid::from_raw(folder.file_name()?.to_str()?.parse().ok()?)
}

/// The folders of all processes, with what their `stat` says.
fn all() -> impl Iterator<Item = (PathBuf, Stat)> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    folders.filter_map(|folder| Some((folder.path(), read(&folder.path()).ok()?)))
}

/// The fields of a `stat` file that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    group: i32,
    cpu: Duration,
}

impl Stat {
    fn lives(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

fn read(folder: &Path) -> io::Result<Stat> {
    let text = fs::read_to_string(folder.join("stat"))?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Fields 3, 4, 5, 14 and 15; field 2, the name, may itself contain spaces and parentheses.
fn parse(stat: &str) -> Option<Stat> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let user: u64 = fields.nth(8)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let cpu = Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND);
    Some(Stat {
        state,
        parent,
        group,
        cpu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_behind_an_odd_name() {
        let stat = parse("12 (a) b) S 1 77 78 0 -1 4194560 1 2 3 4 150 25 8 9 20 0 1 0");
        let expected = Stat {
            state: 'S',
            parent: 1,
            group: 77,
            cpu: Duration::from_millis(1750),
        };
        assert_eq!(stat, Some(expected));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn our_own_group_lives() {
        assert!(has_living_member(rustix::process::getpgrp()));
    }

    #[test]
    fn a_process_that_runs_is_not_asleep_and_uses_cpu_time() {
        if let Some(why) = pagetoll_test_support::emulated() {
            pagetoll_test_support::skip!("{why}");
        }
        let group = rustix::process::getpgrp();
        let before = Activity::read(group);
        let mut number = 1_u64;
        while Activity::read(group).cpu < before.cpu + Duration::from_millis(20) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(!before.asleep);
    }
}
