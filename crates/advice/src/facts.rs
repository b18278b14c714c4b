//! What is known of a machine, and what a rule requires of it.

mod kernel;
mod requirements;

use pagetoll_bill::Arch;
use pagetoll_captures::Capture;
use serde::{Deserialize, Serialize};

pub use kernel::{Kernel, Version};
pub(crate) use requirements::Checked;
pub use requirements::Requirements;

/// What is known of a machine; `None` where it is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Facts {
    /// Its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// Its processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Which guest of Xen it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xen: Option<XenGuest>,
    /// Whether it runs below a hypervisor; of a guest of Xen, whether Xen does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested: Option<bool>,
    /// How KVM runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kvm: Option<KvmMode>,
    /// Transparent huge pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thp: Option<ThpMode>,
    /// hugetlb pages of 2 MiB that are free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_hugepages: Option<u64>,
    /// `nx_huge_pages` of module kvm, as it is written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nx_huge_pages: Option<String>,
    /// What the kernel says of the CPU's iTLB multihit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb_multihit: Option<String>,
    /// IOMMU groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu_groups: Option<u64>,
    /// Whether there is `/dev/iommu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommufd: Option<bool>,
    /// Whether there is userfaultfd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userfaultfd: Option<bool>,
}

/// Which guest of Xen a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XenGuest {
    /// Not one.
    None,
    /// The control domain, PV.
    Dom0,
    /// Another PV domain.
    Domu,
    /// HVM, PVH, or any of arm64: its page tables are its own.
    Hvm,
}

/// How KVM runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmMode {
    /// There is none.
    Absent,
    /// There is one, and no more is known.
    Present,
    /// arm64: the kernel at EL1, a part of KVM alone at EL2.
    Nvhe,
    /// arm64: the same, with guests that the kernel cannot read.
    Protected,
}

/// `transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThpMode {
    /// For all memory.
    Always,
    /// Where a process asks for it.
    Madvise,
    /// Nowhere.
    Never,
}

impl Facts {
    /// What a capture says of the machine that it was recorded on.
    #[must_use]
    pub fn of_capture(capture: &Capture) -> Self {
        Self {
            kernel: capture.kernel.clone().map(Kernel),
            arch: capture.arch.as_deref().and_then(Arch::of_machine),
            ..Self::default()
        }
    }
}
