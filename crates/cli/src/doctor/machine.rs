//! What the lab and later backends need of a machine besides programs.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use pagetoll_lab::Stop;
use pagetoll_lab::cache::Cache;
use pagetoll_lab::{host, request};

use super::{Finding, State};

const GIB: u64 = 1 << 30;
/// What kernel, headers and Xen take once fetched and unpacked. Assumed, with room for a second kernel.
const CACHE_BYTES: u64 = 2 * GIB;

/// Everything but programs.
pub(super) fn findings() -> Vec<Finding> {
    vec![
        architecture(),
        cores(),
        memory(),
        cache(),
        device(
            "/dev/kvm",
            "load kvm_intel or kvm_amd, or allow nested virtualisation",
        ),
        device("/dev/userfaultfd", "a kernel of 6.1 or later has it"),
    ]
}

fn architecture() -> Finding {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let detail = format!("{os} on {architecture}");
    match (os, architecture) {
        ("linux", "x86_64") => Finding::ok("machine", detail),
        _ => Finding::not_ok(
            "machine",
            State::Missing,
            &detail,
            "guest programs are built for Linux on x86-64: use such a machine",
        ),
    }
}

fn cores() -> Finding {
    match host::cpus() {
        1 => Finding::not_ok(
            "cores",
            State::Note,
            "1",
            "with a single one, the SMP races of two vCPUs may stay inconclusive: use two",
        ),
        cores => Finding::ok("cores", cores.to_string()),
    }
}

fn memory() -> Finding {
    let needed = request::default_memory_mib();
    match host::available_memory_mib() {
        None => Finding::not_ok(
            "memory",
            State::Note,
            "unknown: /proc/meminfo does not tell",
            "mount /proc",
        ),
        Some(mib) if mib < needed => Finding::not_ok(
            "memory",
            State::Note,
            &format!("{mib} MiB available"),
            &format!(
                "the guests of a default order take {needed} MiB: free some memory, or order fewer --pages"
            ),
        ),
        Some(mib) => Finding::ok("memory", format!("{mib} MiB available")),
    }
}

fn cache() -> Finding {
    const NAME: &str = "cache";
    let cache = match Cache::open(&Stop::new()) {
        Ok(cache) => cache,
        Err(error) => {
            let remedy = "set PAGETOLL_CACHE to a folder that can be written";
            return Finding::not_ok(NAME, State::Missing, &error.to_string(), remedy);
        }
    };
    let root = cache.root();
    match free_space(root) {
        Err(error) => {
            let detail = format!("{}: free space unknown: {error}", root.display());
            Finding::not_ok(NAME, State::Note, &detail, "see df")
        }
        Ok(bytes) => {
            let detail = format!("{}: {} free", root.display(), gib(bytes));
            let remedy = format!(
                "an empty cache grows to {}: free some space, or set PAGETOLL_CACHE",
                gib(CACHE_BYTES)
            );
            match bytes < CACHE_BYTES {
                true => Finding::not_ok(NAME, State::Note, &detail, &remedy),
                false => Finding::ok(NAME, detail),
            }
        }
    }
}

fn free_space(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// A device that the lab does not need, but later backends do.
fn device(path: &str, absent: &str) -> Finding {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let note = |detail: &str, remedy: &str| Finding::not_ok(path, State::Note, detail, remedy);
    match opened.map_err(|error| error.kind()) {
        Ok(_) => Finding::ok(path, "can be opened (the lab does not need it)"),
        Err(io::ErrorKind::NotFound) => note("absent (the lab does not need it)", absent),
        Err(io::ErrorKind::PermissionDenied) => note(
            "permission denied (the lab does not need it)",
            "join the group that owns it, or be root",
        ),
        Err(kind) => note(&format!("{kind} (the lab does not need it)"), absent),
    }
}

fn gib(bytes: u64) -> String {
    let tenths = bytes / (GIB / 10);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gibibytes_have_one_decimal() {
        assert_eq!(gib(2 * GIB), "2.0 GiB");
        assert_eq!(gib(GIB / 2), "0.5 GiB");
    }

    #[test]
    fn an_absent_device_is_a_note() {
        let finding = device("/dev/no-such-device", "make one");
        assert_eq!(finding.state, State::Note);
        assert!(finding.detail.starts_with("absent"), "{}", finding.detail);
        assert_eq!(device("/dev/null", "").state, State::Ok);
    }
}
