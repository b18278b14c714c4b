//! Capacity of this host: free memory, CPUs, and the version of QEMU.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::process::{Run, run_to_end};
use crate::tools::Tool;
use pagetoll_backend::Stop;
use pagetoll_bill::Arch;

/// Limit of `qemu --version`.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// Memory that can be had without swapping, in MiB, where the kernel reports it (`MemAvailable`, proc(5)).
#[must_use]
pub fn available_memory_mib() -> Option<u64> {
    available_in(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024)
}

/// CPUs that boots may share.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// Refuses an order whose machines do not fit.
pub fn require_memory(needed_mib: u64, option: &str) -> Result<(), Error> {
    match available_memory_mib() {
        Some(available) if available < needed_mib => Err(Error::Environment {
            what: format!(
                "the guests need {needed_mib} MiB of memory, {available} MiB are available"
            ),
            remedy: format!("order less with {option}, or free some memory"),
        }),
        _ => Ok(()),
    }
}

/// Output of `qemu --version`: QEMU's version and its package's.
pub fn qemu_build(arch: Arch, stop: &Stop) -> Result<String, Error> {
    let ask = Run::new(Tool::emulator(arch).program()).arg("--version");
    Ok(run_to_end(&ask, VERSION_LIMIT, stop)?.text())
}

/// QEMU's version, such as `7.2.22`.
pub fn qemu_version(arch: Arch, stop: &Stop) -> Result<String, Error> {
    let text = qemu_build(arch, stop)?;
    let words: Vec<_> = text.split_whitespace().collect();
    let after = words
        .iter()
        .position(|word| *word == "version")
        .map(|at| at + 1);
    let version = after.and_then(|at| words.get(at)).copied();
    Ok(version.unwrap_or("unknown").to_owned())
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn available_memory_is_read_in_mib() {
        let meminfo = "MemTotal:       24689000 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available_in(meminfo), Some(2));
        assert_eq!(available_in("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        assert!(require_memory(1, "--pages").is_ok());
        let error = require_memory(u64::MAX, "--pages").unwrap_err();
        assert!(error.to_string().contains("--pages"), "{error}");
        assert_eq!(error.class(), Class::Environment);
    }
}
