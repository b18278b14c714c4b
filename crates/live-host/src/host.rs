//! Capabilities of this host's KVM and userfaultfd, found by trying, with a remedy for each that is missing.

mod draft;
mod load;
pub mod recording;

use std::collections::BTreeMap;
use std::fs;
use std::io;

use kvm_bindings::KVM_CAP_MEMORY_FAULT_INFO;
use kvm_ioctls::{Cap, Kvm};
use pagetoll_bill::spec::MemoryKind;
use pagetoll_vmm::{DEVICE, Error as MachineError, open_kvm};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::gmem;
use crate::guest_memory::{self, free_hugepages};
use crate::{LiveError, arch};
use pagetoll_pager::{DECODES_FAULTS, Delivery, Features, Userfaultfd};

pub use draft::{draft, guest_draft};
pub use load::{Watch, check_idle, require_idle, said};

/// The limit of all that is measured on a host with KVM, but without VMX and SVM.
pub const SHADOW_PAGING: &str = "KVM without hardware virtualisation (shadow paging): not comparable with machines that have it";
const MEMORY_FAULT_INFO: &str = "KVM_CAP_MEMORY_FAULT_INFO";
/// Why there is no `exit` without it where faults are not decoded.
const UNDESCRIBED: &str = "absent: KVM does not say which page a vCPU lacks, and faults of this processor are not decoded";
const DESCRIBED_BY: &str = "use x86-64, or a kernel that has it, for exit";

/// Share of the orders that a host can run without a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Every order can be run.
    Works,
    /// Some orders are impossible.
    Limited,
    /// No live bill of demand is possible.
    Missing,
}

/// A capability of the host, found by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its name in `doctor`.
    pub name: &'static str,
    /// Orders that its absence prevents.
    pub level: Level,
    /// The state that was found, such as a version or an errno.
    pub detail: String,
    /// Remedy; empty where it works.
    pub remedy: String,
}

impl Capability {
    /// A capability that is there.
    pub fn works(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            level: Level::Works,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    /// A capability that is missing.
    pub fn lacks(name: &'static str, level: Level, detail: &str, remedy: &str) -> Self {
        Self {
            name,
            level,
            detail: detail.into(),
            remedy: remedy.into(),
        }
    }
}

/// Tries every capability that live bills of demand use.
#[must_use]
pub fn examine() -> Vec<Capability> {
    let mut found = vec![kvm(), userfaultfd()];
    if let Ok(kvm) = open_kvm() {
        found.push(hardware_virtualisation(recording::kvm_is_hardware()));
        // Registers are what faults are decoded from.
        found.extend(DECODES_FAULTS.then(|| sync_regs(&kvm)));
        found.extend([memory_fault_info(&kvm), guest_memfd(&kvm)]);
    }
    found.extend(page_size(rustix::param::page_size()));
    found.push(transparent_huge_pages());
    found.extend([MemoryKind::Hugetlb2m, MemoryKind::Hugetlb1g].map(hugetlb));
    found
}

/// Checks that live bills of demand are possible here.
///
/// # Errors
/// What is missing, and what to do about it.
pub fn check() -> Result<(), LiveError> {
    examine().into_iter().try_for_each(require)
}

/// Checks that a guest can be run here.
///
/// # Errors
/// There is no KVM, or pages are not of 4 KiB.
pub fn check_kvm() -> Result<(), LiveError> {
    let found = [kvm()].into_iter();
    let mut found = found.chain(page_size(rustix::param::page_size()));
    found.try_for_each(require)
}

/// Checks that faults of guests can be resolved by user space.
///
/// # Errors
/// There is no userfaultfd for them, or it is not allowed.
pub fn require_userfaultfd() -> Result<(), LiveError> {
    require(userfaultfd())
}

/// Checks that `UFFDIO_CONTINUE` maps pages of shared memory.
///
/// # Errors
/// There is no userfaultfd for guests, or the kernel reports no minor faults of shared memory.
pub fn require_minor_faults() -> Result<(), LiveError> {
    require_userfaultfd()?;
    match Features::detect() {
        Ok(features) if features.minor_shmem() => Ok(()),
        _ => Err(LiveError::environment(
            "userfaultfd: without MINOR_SHMEM",
            "use Linux 5.14 or later",
        )),
    }
}

fn require(found: Capability) -> Result<(), LiveError> {
    match found.level {
        Level::Missing => Err(LiveError::environment(
            format!("{}: {}", found.name, found.detail),
            found.remedy,
        )),
        _ => Ok(()),
    }
}

fn kvm() -> Capability {
    match open_kvm() {
        Ok(kvm) => Capability::works(DEVICE, format!("{} vCPUs recommended", kvm.get_nr_vcpus())),
        Err(MachineError::Environment { what, remedy }) => {
            let detail = what.trim_start_matches("/dev/kvm: ");
            Capability::lacks(DEVICE, Level::Missing, detail, remedy)
        }
        Err(other) => Capability::lacks(DEVICE, Level::Missing, &other.to_string(), "see dmesg"),
    }
}

fn hardware_virtualisation(is_used: bool) -> Capability {
    const NAME: &str = "hardware virtualisation";
    match is_used {
        true => Capability::works(NAME, "used by KVM"),
        false => Capability::lacks(
            NAME,
            Level::Limited,
            SHADOW_PAGING,
            "bill a host whose KVM has VMX or SVM; in a VM, allow nested virtualisation",
        ),
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

/// Optional features of userfaultfd.
fn features(name: &'static str) -> Capability {
    let Ok(features) = Features::detect() else {
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
    let state = (describes_faults(kvm), DECODES_FAULTS);
    let detail = match state {
        (true, true) => "present; faults without it are decoded",
        (false, true) => "absent; all faults are decoded",
        (true, false) => "present",
        (false, false) => {
            return Capability::lacks(MEMORY_FAULT_INFO, Level::Limited, UNDESCRIBED, DESCRIBED_BY);
        }
    };
    Capability::works(MEMORY_FAULT_INFO, detail)
}

/// Returns whether KVM says which page a fault was for.
fn describes_faults(kvm: &Kvm) -> bool {
    kvm.check_extension_raw(KVM_CAP_MEMORY_FAULT_INFO.into()) > 0
}

/// Checks that the page of a fault can be found.
///
/// # Errors
/// KVM does not say which it was, and it is not decoded here.
pub fn require_findable_pages() -> Result<(), LiveError> {
    if DECODES_FAULTS || describes_faults(&open_kvm()?) {
        return Ok(());
    }
    Err(LiveError::environment(
        format!("{MEMORY_FAULT_INFO}: {UNDESCRIBED}"),
        DESCRIBED_BY,
    ))
}

/// The page size, where it is another than that of all figures.
fn page_size(bytes: usize) -> Option<Capability> {
    (bytes != 4096).then(|| {
        Capability::lacks(
            "pages of 4 KiB",
            Level::Missing,
            &format!("this kernel's are of {} KiB", bytes / 1024),
            "boot a kernel with CONFIG_ARM64_4K_PAGES",
        )
    })
}

fn guest_memfd(kvm: &Kvm) -> Capability {
    const NAME: &str = "guest_memfd";
    let vm = kvm.create_vm().map_err(LiveError::system("KVM_CREATE_VM"));
    match vm.and_then(|vm| gmem::check(&vm)) {
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

fn hugetlb(kind: MemoryKind) -> Capability {
    let name = match kind {
        MemoryKind::Hugetlb1g => "hugetlb pages of 1G",
        _ => "hugetlb pages of 2M",
    };
    match free_hugepages(kind) {
        Some(free) if free > 0 => Capability::works(name, format!("{free} free")),
        Some(_) => {
            let remedy = format!(
                "echo N > {}/nr_hugepages, for --memory {kind}",
                guest_memory::hugepages_folder(kind)
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

/// Refuses an order that needs more than `MemAvailable`.
pub fn require_memory(bytes: u64) -> Result<(), LiveError> {
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

/// CPUs that this process may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// The kernel and the CPU that were measured.
pub fn stack() -> BTreeMap<String, String> {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut stack = BTreeMap::from([("linux".to_owned(), release)]);
    if let Some(model) = arch::cpu_model(&cpuinfo) {
        stack.insert("cpu".to_owned(), model);
    }
    stack
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

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
    fn shadow_paging_is_a_limit_with_a_remedy() {
        assert_eq!(hardware_virtualisation(true).level, Level::Works);
        let shadow = hardware_virtualisation(false);
        assert_eq!(shadow.level, Level::Limited);
        assert!(
            shadow.detail.contains("not comparable"),
            "{}",
            shadow.detail
        );
        assert!(!shadow.remedy.is_empty());
    }

    #[test]
    fn pages_of_another_size_are_refused() {
        assert_eq!(page_size(4096), None);
        let refused = page_size(65_536).unwrap();
        assert_eq!(refused.level, Level::Missing);
        assert_eq!(refused.detail, "this kernel's are of 64 KiB");
    }

    #[test]
    fn an_order_beyond_available_memory_is_refused_with_both_figures() {
        assert_eq!(
            available("MemTotal: 1 kB\nMemAvailable:   2048 kB\n"),
            Some(2 << 20)
        );
        let error = require_memory(1 << 60).unwrap_err();
        assert!(error.to_string().contains("--pages"), "{error}");
        assert_eq!(error.class(), Class::Environment);
    }
}
