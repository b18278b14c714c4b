//! Properties of a machine, and requirements of rules on them.

mod kernel;
mod requirements;

use pagetoll_bill::Arch;
use pagetoll_observation::Capture;
use serde::{Deserialize, Serialize};

pub use kernel::{Kernel, Version};
pub(crate) use requirements::RequirementCheck;
pub use requirements::Requirements;

/// Properties of a machine; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Facts {
    /// Kernel release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// Processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// Kind of Xen guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xen: Option<XenGuest>,
    /// Nested virtualisation: the machine, or the Xen that it is a guest of, runs below a hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested: Option<bool>,
    /// Mode of KVM.
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
    /// Text of the kernel on the CPU's iTLB multihit vulnerability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb_multihit: Option<String>,
    /// IOMMU groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu_groups: Option<u64>,
    /// `/dev/iommu` exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommufd: Option<bool>,
    /// userfaultfd is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userfaultfd: Option<bool>,
}

/// Kind of Xen guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XenGuest {
    /// Not a Xen guest.
    None,
    /// The control domain, PV.
    Dom0,
    /// Another PV domain.
    Domu,
    /// HVM, PVH, or any of arm64: its page tables are its own.
    Hvm,
}

/// Mode of KVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmMode {
    /// No KVM.
    Absent,
    /// KVM, in an unknown mode.
    Present,
    /// x86-64 without VMX and SVM: KVM shadows the guest's page tables.
    Shadow,
    /// arm64: the kernel at EL1, a part of KVM alone at EL2.
    Nvhe,
    /// arm64: `Nvhe`, with guests that the kernel cannot read.
    Protected,
}

/// `transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThpMode {
    /// For all memory.
    Always,
    /// For memory of processes that request it.
    Madvise,
    /// For no memory.
    Never,
}

impl Facts {
    /// Properties of the machine on which a capture was recorded.
    #[must_use]
    pub fn from_capture(capture: &Capture) -> Self {
        Self {
            kernel: capture.kernel.clone().map(Kernel),
            arch: capture.arch.as_deref().and_then(Arch::of_machine),
            ..Self::default()
        }
    }
}
