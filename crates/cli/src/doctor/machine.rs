//! What the lab needs of a machine besides programs.

use std::fs;
use std::io;
use std::path::Path;

use pagetoll_host::cache;
use pagetoll_host::capacity;
use pagetoll_lab::request;

use super::{Finding, State};

const GIB: u64 = 1 << 30;
/// os-release(5).
const OS_RELEASE: &str = "/etc/os-release";
/// What kernel, headers and Xen take once fetched and unpacked. Assumed, with room for a second kernel.
const CACHE_BYTES: u64 = 2 * GIB;

/// Findings about the machine; programs are in `install`.
pub(super) fn findings() -> Vec<Finding> {
    let release = fs::read_to_string(OS_RELEASE).unwrap_or_default();
    vec![
        architecture(),
        distribution(&release),
        cores(),
        memory(),
        cache(),
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

fn distribution(release: &str) -> Finding {
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or("unknown", |name| name.trim_matches('"'));
    Finding::ok("distribution", name)
}

fn cores() -> Finding {
    match capacity::cpus() {
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
    match capacity::available_memory_mib() {
        None => Finding::not_ok(
            "memory",
            State::Note,
            "unknown: /proc/meminfo has no MemAvailable",
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
    let place = match cache::look() {
        Ok(place) => place,
        Err(error) => {
            let remedy = "set PAGETOLL_CACHE to a folder that can be written";
            return Finding::not_ok(NAME, State::Missing, &error.to_string(), remedy);
        }
    };
    let root = &place.root;
    match free_space(&place.existing) {
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
}
