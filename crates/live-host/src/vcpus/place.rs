//! Which thread runs on which CPU.

use pagetoll_bill::spec::Placement;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::LiveError;
use crate::host::allowed_cpus;

/// A thread of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A vCPU's, by its number.
    Vcpu(usize),
    /// A reader's, by its number, next to this many vCPUs.
    Reader(usize, usize),
}

/// The CPU that a thread is to run on; `None` where it may run anywhere.
pub fn cpu_for(role: Role, placement: Placement, allowed: &[usize]) -> Option<usize> {
    let number = match (role, placement) {
        (_, Placement::Anywhere) | (Role::Reader(..), Placement::Vcpus) => return None,
        (Role::Vcpu(number), _) | (Role::Reader(number, _), Placement::Together) => number,
        (Role::Reader(number, vcpus), Placement::Apart) => vcpus + number,
    };
    allowed.get(number % allowed.len().max(1)).copied()
}

/// Puts the calling thread on a CPU, and looks whether it is there.
pub fn pin(cpu: Option<usize>) -> Result<(), LiveError> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(LiveError::system(format!("pinning to CPU {cpu}")))?;
    match sched_getcpu() {
        found if found == cpu => Ok(()),
        found => Err(LiveError::System {
            operation: format!("pinning to CPU {cpu}"),
            source: std::io::Error::other(format!("the thread runs on CPU {found}")),
        }),
    }
}

/// Keeps the calling thread off a CPU, where it may run on another one.
pub fn keep_off(cpu: usize) -> Result<(), LiveError> {
    let mut set = CpuSet::new();
    let others = allowed_cpus();
    let others = others.into_iter().filter(|other| *other != cpu);
    others.for_each(|other| set.set(other));
    if set.count() == 0 {
        return Ok(());
    }
    sched_setaffinity(None, &set).map_err(LiveError::system(format!("leaving CPU {cpu}")))
}

/// Where threads were put, in words.
pub fn describe(vcpus: usize, readers: usize, placement: Placement) -> String {
    let allowed = allowed_cpus();
    let of = |name: &str, roles: Vec<Role>| {
        let cpus: Option<Vec<_>> = roles
            .iter()
            .map(|role| cpu_for(*role, placement, &allowed))
            .collect();
        match cpus {
            None => format!("{name} unpinned"),
            Some(cpus) => {
                let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
                format!("{name} on CPU {}", cpus.join(" "))
            }
        }
    };
    let vcpu_roles = (0..vcpus).map(Role::Vcpu).collect();
    let placed = of("vCPUs", vcpu_roles);
    if readers == 0 {
        return placed;
    }
    let reader_roles = (0..readers)
        .map(|number| Role::Reader(number, vcpus))
        .collect();
    format!("{placed}, {}", of("readers", reader_roles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wrap_around_the_allowed_cpus() {
        let allowed = [2, 5];
        let cpu = |role, placement| cpu_for(role, placement, &allowed);
        assert_eq!(cpu(Role::Vcpu(3), Placement::Vcpus), Some(5));
        assert_eq!(cpu(Role::Reader(0, 3), Placement::Vcpus), None);
        assert_eq!(cpu(Role::Reader(1, 1), Placement::Together), Some(5));
        assert_eq!(cpu(Role::Reader(0, 1), Placement::Apart), Some(5));
        assert_eq!(cpu(Role::Vcpu(0), Placement::Anywhere), None);
    }

    #[test]
    fn a_pinned_thread_is_where_it_should_be() {
        for cpu in allowed_cpus() {
            std::thread::spawn(move || pin(Some(cpu)).unwrap())
                .join()
                .unwrap();
        }
    }

    #[test]
    fn a_thread_leaves_a_cpu_where_there_is_another() {
        let allowed = allowed_cpus();
        for cpu in allowed.iter().copied() {
            let found = std::thread::spawn(move || {
                keep_off(cpu).unwrap();
                allowed_cpus()
            });
            let mut others = allowed.clone();
            others.retain(|other| *other != cpu || allowed.len() == 1);
            assert_eq!(found.join().unwrap(), others);
        }
    }

    #[test]
    fn a_row_names_the_cpus_of_its_threads() {
        assert_eq!(
            describe(2, 1, Placement::Anywhere),
            "vCPUs unpinned, readers unpinned"
        );
        assert!(describe(1, 1, Placement::Vcpus).starts_with("vCPUs on CPU "));
        assert!(!describe(1, 0, Placement::Together).contains("readers"));
    }
}
