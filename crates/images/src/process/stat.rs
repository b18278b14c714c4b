//! What /proc says of processes: proc_pid_stat(5).

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;

/// USER_HZ, the unit of times in /proc: 100 on every architecture that pagetoll runs on, by the kernel's ABI.
const TICKS_PER_SECOND: u64 = 100;

/// How much a process has run, and whether it wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// CPU time of all its threads, user and system, ended threads included. Resolution: 10 ms.
    pub cpu: Duration,
    /// Every thread sleeps: none runs, waits for a CPU or waits for a disk.
    pub asleep: bool,
}

impl Activity {
    /// Reads the activity of a process that was not reaped yet.
    pub(super) fn of(process: u32) -> io::Result<Self> {
        let folder = Path::new("/proc").join(process.to_string());
        let whole = read(&folder)?;
        let mut asleep = true;
        for thread in fs::read_dir(folder.join("task"))?.flatten() {
            // A thread that ended since the folder was read wants nothing.
            asleep &= read(&thread.path()).map_or(true, |thread| thread.state == 'S');
        }
        Ok(Self {
            cpu: whole.cpu,
            asleep,
        })
    }
}

/// Whether a process of this group exists that is not a zombie.
///
/// `kill(-group, 0)` alone does not say: it also succeeds on zombies, and orphaned ones stay for good where process 1
/// does not reap, as in many containers.
pub(super) fn has_living_member(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok() && living_member_in_proc(group)
}

fn living_member_in_proc(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes
        .flatten()
        .filter_map(|process| read(&process.path()).ok())
        .any(|stat| stat.group == group.as_raw_nonzero().get() && !matches!(stat.state, 'Z' | 'X'))
}

/// The fields of a `stat` file that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    group: i32,
    cpu: Duration,
}

fn read(folder: &Path) -> io::Result<Stat> {
    let text = fs::read_to_string(folder.join("stat"))?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Fields 3, 5, 14 and 15; field 2, the name, may itself contain spaces and parentheses.
fn parse(stat: &str) -> Option<Stat> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let user: u64 = fields.nth(8)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let cpu = Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND);
    Some(Stat { state, group, cpu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_behind_an_odd_name() {
        let stat = parse("12 (a) b) S 1 77 78 0 -1 4194560 1 2 3 4 150 25 8 9 20 0 1 0");
        let expected = Stat {
            state: 'S',
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
        let this = std::process::id();
        let before = Activity::of(this).unwrap();
        let mut number = 1_u64;
        while Activity::of(this).unwrap().cpu < before.cpu + Duration::from_millis(20) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(!before.asleep);
    }
}
