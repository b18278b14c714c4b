//! What this host's KVM and userfaultfd can do, found out by trying, and what to do about what they cannot.

use std::fs;
use std::io;
use std::path::Path;

use kvm_ioctls::{Cap, Kvm};

use crate::LiveError;
use crate::pager::{Delivery, Features, Userfaultfd};
use crate::routes::demand::Memory;

const DEVICE: &str = "/dev/kvm";
/// The interface of KVM since Linux 2.6.22 (KVM api.rst, 4.1).
const API_VERSION: i32 = 12;

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It works.
    Works,
    /// Some orders cannot be billed.
    Limited,
    /// Nothing can be billed.
    Missing,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it is.
    pub name: &'static str,
    /// How it was found.
    pub level: Level,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty where it works.
    pub remedy: String,
}

impl Capability {
    fn works(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            level: Level::Works,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    fn lacks(name: &'static str, level: Level, detail: &str, remedy: &str) -> Self {
        Self {
            name,
            level,
            detail: detail.into(),
            remedy: remedy.into(),
        }
    }
}

/// Tries everything.
#[must_use]
pub fn examine() -> Vec<Capability> {
    let mut found = vec![kvm(), userfaultfd()];
    if let Ok(kvm) = open_kvm() {
        found.extend([sync_regs(&kvm), memory_fault_info(&kvm), guest_memfd(&kvm)]);
    }
    found.push(transparent_huge_pages());
    found.extend([Memory::Hugetlb2m, Memory::Hugetlb1g].map(hugetlb));
    found
}

/// Whether anything can be billed here at all.
///
/// # Errors
/// What is missing, and what to do about it.
pub fn check() -> Result<(), LiveError> {
    let missing = |found: &Capability| found.level == Level::Missing;
    match examine().into_iter().find(missing) {
        None => Ok(()),
        Some(found) => Err(LiveError::environment(
            format!("{}: {}", found.name, found.detail),
            found.remedy,
        )),
    }
}

/// Opens /dev/kvm.
pub(crate) fn open_kvm() -> Result<Kvm, LiveError> {
    let kvm = Kvm::new().map_err(|error| {
        let (what, remedy) = without_kvm(io::Error::from(error).kind());
        LiveError::environment(format!("{DEVICE}: {what}"), remedy)
    })?;
    match kvm.get_api_version() {
        API_VERSION => Ok(kvm),
        other => Err(LiveError::environment(
            format!("{DEVICE}: version {other} of its interface"),
            "use a kernel whose KVM has version 12, as all have since 2.6.22",
        )),
    }
}

/// What it means that /dev/kvm could not be opened, and what to do.
fn without_kvm(kind: io::ErrorKind) -> (String, &'static str) {
    match kind {
        io::ErrorKind::NotFound => (
            "absent".into(),
            "load kvm_intel or kvm_amd; in a VM, allow nested virtualisation; in a container, pass --device /dev/kvm",
        ),
        io::ErrorKind::PermissionDenied => (
            "permission denied".into(),
            "join the group that owns it (usermod -aG kvm USER, then log in again), or be root",
        ),
        other => (other.to_string(), "see dmesg"),
    }
}

fn kvm() -> Capability {
    match open_kvm() {
        Ok(kvm) => Capability::works(DEVICE, format!("{} vCPUs recommended", kvm.get_nr_vcpus())),
        Err(LiveError::Environment { what, remedy }) => {
            let detail = what.trim_start_matches("/dev/kvm: ");
            Capability::lacks(DEVICE, Level::Missing, detail, &remedy)
        }
        Err(other) => Capability::lacks(DEVICE, Level::Missing, &other.to_string(), "see dmesg"),
    }
}

fn userfaultfd() -> Capability {
    const NAME: &str = "userfaultfd";
    match Userfaultfd::new(Delivery::Message) {
        Ok(_) => features(NAME),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Capability::lacks(
            NAME,
            Level::Missing,
            "not allowed for faults of the kernel's own, as KVM's are",
            "be root or have CAP_SYS_PTRACE, or sysctl vm.unprivileged_userfaultfd=1, or make /dev/userfaultfd yours",
        ),
        Err(error) => Capability::lacks(
            NAME,
            Level::Missing,
            &error.to_string(),
            "use a kernel with CONFIG_USERFAULTFD",
        ),
    }
}

/// What its optional features allow.
fn features(name: &'static str) -> Capability {
    let Ok(features) = Features::of_this_host() else {
        return Capability::lacks(
            name,
            Level::Missing,
            "UFFDIO_API fails",
            "use Linux 4.11 or later",
        );
    };
    let named = [
        ("SIGBUS (Linux 4.14), for exit", features.sigbus()),
        ("MISSING_SHMEM (4.11)", features.missing_shmem()),
        ("MISSING_HUGETLBFS (4.11)", features.missing_hugetlbfs()),
        ("MINOR_SHMEM (5.14)", features.minor_shmem()),
        ("MINOR_HUGETLBFS (5.13)", features.minor_hugetlbfs()),
    ];
    let absent: Vec<_> = named
        .iter()
        .filter(|(_, has)| !has)
        .map(|(name, _)| *name)
        .collect();
    if absent.is_empty() {
        return Capability::works(
            name,
            "SIGBUS; missing and minor faults of all kinds of memory",
        );
    }
    let detail = format!("without {}", absent.join(", "));
    Capability::lacks(
        name,
        Level::Limited,
        &detail,
        "use a later kernel for the orders that need these",
    )
}

fn sync_regs(kvm: &Kvm) -> Capability {
    const NAME: &str = "KVM_CAP_SYNC_REGS";
    /// `KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS`.
    const NEEDED: i32 = 0x3;
    match kvm.check_extension_int(Cap::SyncRegs) & NEEDED {
        NEEDED => Capability::works(NAME, "registers come with each exit"),
        _ => Capability::lacks(
            NAME,
            Level::Limited,
            "absent",
            "use Linux 4.17 or later for exit",
        ),
    }
}

fn memory_fault_info(kvm: &Kvm) -> Capability {
    let detail = match kvm.check_extension(Cap::MemoryFaultInfo) {
        true => "there; faults that it tells nothing of are decoded",
        false => "absent; all faults are decoded",
    };
    Capability::works("KVM_CAP_MEMORY_FAULT_INFO", detail)
}

fn guest_memfd(kvm: &Kvm) -> Capability {
    const NAME: &str = "guest_memfd";
    let vm = kvm.create_vm().map_err(LiveError::system("KVM_CREATE_VM"));
    match vm.and_then(|vm| crate::routes::demand::check_gmem(&vm)) {
        Ok(()) => Capability::works(NAME, "for ordinary memory, for exit-gmem"),
        Err(LiveError::Environment { what, remedy }) => {
            Capability::lacks(NAME, Level::Limited, &what, &remedy)
        }
        Err(other) => Capability::lacks(NAME, Level::Limited, &other.to_string(), "see dmesg"),
    }
}

fn transparent_huge_pages() -> Capability {
    const NAME: &str = "transparent huge pages";
    let text =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("absent");
    match chosen {
        "always" | "madvise" => Capability::works(NAME, chosen),
        other => Capability::lacks(
            NAME,
            Level::Limited,
            other,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, for --memory thp",
        ),
    }
}

fn hugetlb(kind: Memory) -> Capability {
    let name = match kind {
        Memory::Hugetlb1g => "hugetlb pages of 1G",
        _ => "hugetlb pages of 2M",
    };
    match free_hugepages(kind) {
        Some(free) if free > 0 => Capability::works(name, format!("{free} free")),
        Some(_) => {
            let remedy = format!(
                "echo N > {}/nr_hugepages, for --memory {kind}",
                folder(kind)
            );
            Capability::lacks(name, Level::Limited, "none free", &remedy)
        }
        None => Capability::lacks(
            name,
            Level::Limited,
            "the kernel has none of this size",
            "use a CPU and kernel that have",
        ),
    }
}

fn folder(kind: Memory) -> String {
    format!(
        "/sys/kernel/mm/hugepages/hugepages-{}kB",
        kind.page_size() / 1024
    )
}

/// hugetlb pages that are neither used nor promised; `None` where there is no such size.
fn free_hugepages(kind: Memory) -> Option<u64> {
    let read = |file: &str| -> Option<u64> {
        fs::read_to_string(Path::new(&folder(kind)).join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    Some(read("free_hugepages")?.saturating_sub(read("resv_hugepages")?))
}

/// Refuses an order whose hugetlb pages are not there, or that no kernel here pages.
pub(crate) fn require_hugepages(kind: Memory, bytes: u64) -> Result<(), LiveError> {
    let needed = bytes / kind.page_size();
    match free_hugepages(kind) {
        Some(free) if free >= needed => Ok(()),
        Some(free) => Err(LiveError::environment(
            format!("{needed} hugetlb pages are needed for --memory {kind}, {free} are free"),
            format!(
                "echo N > {}/nr_hugepages with at least {needed} more than are used, as root",
                folder(kind)
            ),
        )),
        None => Err(LiveError::environment(
            format!("the kernel has no hugetlb pages for --memory {kind}"),
            "order another --memory",
        )),
    }
}

/// Refuses an order that does not fit into the memory that can be had.
pub(crate) fn require_memory(bytes: u64) -> Result<(), LiveError> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available(&meminfo) {
        Some(available) if available < bytes => Err(LiveError::environment(
            format!(
                "{} MiB of memory are needed, {} MiB are available",
                bytes >> 20,
                available >> 20
            ),
            "order fewer --pages or --vcpus",
        )),
        _ => Ok(()),
    }
}

/// `MemAvailable` in bytes (proc_meminfo(5)).
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_a_remedy() {
        for found in examine() {
            assert_eq!(
                found.level == Level::Works,
                found.remedy.is_empty(),
                "{found:?}"
            );
        }
    }

    #[test]
    fn each_way_to_have_no_kvm_has_its_own_remedy() {
        let told = |kind| without_kvm(kind).1;
        assert!(told(io::ErrorKind::NotFound).contains("kvm_intel"));
        assert!(told(io::ErrorKind::PermissionDenied).contains("group"));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        assert_eq!(
            available("MemTotal: 1 kB\nMemAvailable:   2048 kB\n"),
            Some(2 << 20)
        );
        let error = require_memory(1 << 60).unwrap_err();
        assert!(error.to_string().contains("--pages"), "{error}");
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn hugetlb_pages_that_are_not_there_are_refused_with_the_way_to_get_them() {
        let error = require_hugepages(Memory::Hugetlb2m, 1 << 60).unwrap_err();
        assert!(
            error.to_string().contains("nr_hugepages") || error.to_string().contains("no hugetlb")
        );
        assert_eq!(error.exit_code(), 3);
    }
}
