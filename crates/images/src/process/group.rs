//! Looks whether anybody of a process group still lives.
//!
//! `kill(-group, 0)` alone does not tell: it also succeeds on zombies, and orphaned ones stay
//! for good where process 1 does not reap, as in many containers.

use std::fs;

use rustix::process::Pid;

/// Whether a process of this group exists that is not a zombie.
pub(super) fn has_living_member(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok() && living_member_in_proc(group)
}

fn living_member_in_proc(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes
        .flatten()
        .filter_map(|process| fs::read_to_string(process.path().join("stat")).ok())
        .filter_map(|stat| state_and_group(&stat))
        .any(|(state, member_of)| {
            member_of == group.as_raw_nonzero().get() && !matches!(state, 'Z' | 'X')
        })
}

/// Fields 3 and 5 of proc_pid_stat(5); field 2, the name, may itself contain spaces and parentheses.
fn state_and_group(stat: &str) -> Option<(char, i32)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_state_and_group_behind_an_odd_name() {
        assert_eq!(state_and_group("12 (a) b) S 1 77 77 0 -1"), Some(('S', 77)));
        assert_eq!(state_and_group("nonsense"), None);
    }

    #[test]
    fn our_own_group_lives() {
        assert!(has_living_member(rustix::process::getpgrp()));
    }
}
