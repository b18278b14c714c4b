//! Which thread runs on which CPU.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::order::Pinning;
use crate::LiveError;

/// A thread of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A vCPU's, by its number.
    Vcpu(usize),
    /// A reader's, by its number, next to this many vCPUs.
    Reader(usize, usize),
}

/// CPUs that this process may use, ascending.
pub(super) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// The CPU that a thread is to run on; `None` where it may run anywhere.
pub(super) fn cpu_for(role: Role, pinning: Pinning, allowed: &[usize]) -> Option<usize> {
    let number = match (role, pinning) {
        (_, Pinning::None) | (Role::Reader(..), Pinning::Vcpus) => return None,
        (Role::Vcpu(number), _) | (Role::Reader(number, _), Pinning::Together) => number,
        (Role::Reader(number, vcpus), Pinning::Apart) => vcpus + number,
    };
    allowed.get(number % allowed.len().max(1)).copied()
}

/// Puts the calling thread on a CPU, and looks whether it is there.
pub(super) fn pin(cpu: Option<usize>) -> Result<(), LiveError> {
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

/// Where threads were put, in words.
pub(super) fn describe(vcpus: usize, readers: usize, pinning: Pinning) -> String {
    let allowed = allowed_cpus();
    let of = |name: &str, roles: Vec<Role>| {
        let cpus: Option<Vec<_>> = roles
            .iter()
            .map(|role| cpu_for(*role, pinning, &allowed))
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
        let cpu = |role, pinning| cpu_for(role, pinning, &allowed);
        assert_eq!(cpu(Role::Vcpu(3), Pinning::Vcpus), Some(5));
        assert_eq!(cpu(Role::Reader(0, 3), Pinning::Vcpus), None);
        assert_eq!(cpu(Role::Reader(1, 1), Pinning::Together), Some(5));
        assert_eq!(cpu(Role::Reader(0, 1), Pinning::Apart), Some(5));
        assert_eq!(cpu(Role::Vcpu(0), Pinning::None), None);
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
    fn placement_is_told() {
        assert_eq!(
            describe(2, 1, Pinning::None),
            "vCPUs unpinned, readers unpinned"
        );
        assert!(describe(1, 1, Pinning::Vcpus).starts_with("vCPUs on CPU "));
        assert!(!describe(1, 0, Pinning::Together).contains("readers"));
    }
}
