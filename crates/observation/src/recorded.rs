//! Events that a capture recorded. A count of nothing says that nothing happened only where its event was recorded.

use std::collections::BTreeSet;

use pagetoll_ftrace::tracepoint::{MemoryCall, Payload};
use serde::Serialize;

use crate::Group;

/// Calls of userfaultfd(2): include/uapi/linux/userfaultfd.h.
pub const USERFAULTFD: [(u32, &str); 5] = [
    (0xc028_aa03, "UFFDIO_COPY"),
    (0xc020_aa07, "UFFDIO_CONTINUE"),
    (0xc018_aa06, "UFFDIO_WRITEPROTECT"),
    (0x8010_aa02, "UFFDIO_WAKE"),
    (0xc028_aa05, "UFFDIO_MOVE"),
];

/// Events of a capture that are known to have been recorded, whether or not there were any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// Tracepoints, such as `kvm:kvm_exit`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    tracepoints: BTreeSet<&'static str>,
    /// Kinds of which the capture has all that happened.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    groups: BTreeSet<Group>,
}

/// A tracepoint, and the items that its events become.
struct Source {
    tracepoint: &'static str,
    group: Group,
    names: Names,
}

/// Names of a tracepoint's items.
enum Names {
    /// Every name of its group.
    All,
    /// Some of its group's.
    These(&'static [&'static str]),
}

use Names::{All, These};

const SIZES: &[&str] = &["4K", "2M", "1G"];
const SIZES_CHANGED: &[&str] = &["4K changed", "2M changed", "1G changed"];
const SPLITS: &[&str] = &["2M split", "1G split", "2M not split", "1G not split"];
const WITHOUT_LOCK: &[&str] = &[
    "fixed without the lock",
    "fixed by another CPU before",
    "not fixed without the lock",
];
const CALLS: &[&str] = &[
    USERFAULTFD[0].1,
    USERFAULTFD[1].1,
    USERFAULTFD[2].1,
    USERFAULTFD[3].1,
    USERFAULTFD[4].1,
];

/// The tracepoints whose items a rule may ask for.
const SOURCES: [Source; 16] = [
    source("kvm:kvm_exit", Group::Exits, All),
    source("kvm:kvm_userspace_exit", Group::ToUserSpace, All),
    source("kvm:kvm_page_fault", Group::Faults, These(&["the guest's"])),
    source(
        "kvm:kvm_guest_fault",
        Group::Faults,
        These(&["the guest's"]),
    ),
    source("kvmmmu:kvm_mmu_set_spte", Group::Mapped, These(SIZES)),
    source("kvmmmu:fast_page_fault", Group::Mapped, These(WITHOUT_LOCK)),
    source(
        "kvmmmu:kvm_mmu_split_huge_page",
        Group::Mapped,
        These(SPLITS),
    ),
    source(
        "kvmmmu:kvm_tdp_mmu_spte_changed",
        Group::Mapped,
        These(SIZES_CHANGED),
    ),
    source(
        "kvm:kvm_dirty_ring_push",
        Group::Mapped,
        These(&["pushed as dirty"]),
    ),
    source("kvm:kvm_unmap_hva_range", Group::Unmapped, All),
    source("iommu:map", Group::Pinned, All),
    source("iommu:unmap", Group::Unpinned, All),
    source("syscalls:sys_enter_ioctl", Group::Calls, These(CALLS)),
    source(
        "syscalls:sys_enter_madvise",
        Group::Calls,
        These(&["madvise 4"]),
    ),
    source("syscalls:sys_enter_mmap", Group::Calls, These(&["mmap"])),
    source("xen:xen_mc_flush", Group::Hypercalls, These(&["multicall"])),
];

const fn source(tracepoint: &'static str, group: Group, names: Names) -> Source {
    Source {
        tracepoint,
        group,
        names,
    }
}

impl Source {
    /// True if its events are all that become items of this name, or of the group where no name is given.
    fn tells(&self, group: Group, name: Option<&str>) -> bool {
        let names = match (&self.names, name) {
            (All, _) => true,
            (These(_), None) => false,
            (These(names), Some(name)) => names.contains(&name),
        };
        self.group == group && names
    }
}

impl Recorded {
    /// Leaves what another section of the same text recorded too: their parties are others.
    pub(crate) fn retain_common(&mut self, other: &Self) {
        self.tracepoints
            .retain(|name| other.tracepoints.contains(name));
        self.groups.retain(|group| other.groups.contains(group));
    }

    /// Tracepoints that were recorded, of those above tracepoints were. Others than those above are left out.
    pub fn tracepoints<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = |name: &str| {
            let source = SOURCES.iter().find(|source| source.tracepoint == name);
            source.map(|source| source.tracepoint)
        };
        Self {
            tracepoints: names.into_iter().filter_map(known).collect(),
            groups: BTreeSet::new(),
        }
    }

    /// Kinds of which each event was recorded.
    pub fn groups(groups: impl IntoIterator<Item = Group>) -> Self {
        Self {
            tracepoints: BTreeSet::new(),
            groups: groups.into_iter().collect(),
        }
    }

    /// Tracepoints whose events become items of this name, or of the group where no name is given.
    #[must_use]
    pub fn sources(group: Group, name: Option<&str>) -> Vec<&'static str> {
        let sources = SOURCES.iter().filter(|source| source.tells(group, name));
        sources.map(|source| source.tracepoint).collect()
    }

    /// True if a count of nothing means that nothing of this name, or of the group where no name is given, happened.
    #[must_use]
    pub fn has(&self, group: Group, name: Option<&str>) -> bool {
        self.has_any(group, &Self::sources(group, name))
    }

    /// [`Self::has`], of items whose [`Self::sources`] are known.
    #[must_use]
    pub fn has_any(&self, group: Group, sources: &[&str]) -> bool {
        let is_recorded = |source: &&str| self.tracepoints.contains(source);
        self.groups.contains(&group) || sources.iter().any(is_recorded)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tracepoints.is_empty() && self.groups.is_empty()
    }

    /// Adds the tracepoint of an event: where there is one, others would be there too.
    pub fn insert(&mut self, event: &Payload) {
        self.tracepoints.extend(tracepoint(event));
    }

    /// Adds what a capture says of itself.
    pub fn extend(&mut self, more: Self) {
        self.tracepoints.extend(more.tracepoints);
        self.groups.extend(more.groups);
    }
}

/// The event's tracepoint, if it is among those above.
const fn tracepoint(event: &Payload) -> Option<&'static str> {
    Some(match event {
        Payload::KvmExit(_) => "kvm:kvm_exit",
        Payload::KvmUserspaceExit(_) => "kvm:kvm_userspace_exit",
        Payload::KvmPageFault(_) => "kvm:kvm_page_fault",
        Payload::KvmGuestFault(_) => "kvm:kvm_guest_fault",
        Payload::SetSpte(_) => "kvmmmu:kvm_mmu_set_spte",
        Payload::FastPageFault(_) => "kvmmmu:fast_page_fault",
        Payload::SplitHugePage(_) => "kvmmmu:kvm_mmu_split_huge_page",
        Payload::SpteChanged(_) => "kvmmmu:kvm_tdp_mmu_spte_changed",
        Payload::KvmDirtyRingPush { .. } => "kvm:kvm_dirty_ring_push",
        Payload::KvmUnmapHvaRange { .. } => "kvm:kvm_unmap_hva_range",
        Payload::IommuMap { .. } => "iommu:map",
        Payload::IommuUnmap { .. } => "iommu:unmap",
        Payload::IoctlEnter { .. } => "syscalls:sys_enter_ioctl",
        Payload::MemoryCall(MemoryCall::Madvise { .. }) => "syscalls:sys_enter_madvise",
        Payload::MemoryCall(MemoryCall::Mmap { .. }) => "syscalls:sys_enter_mmap",
        Payload::Xen(pagetoll_ftrace::tracepoint::Xen::McFlush(_)) => "xen:xen_mc_flush",
        _ => return None,
    })
}
