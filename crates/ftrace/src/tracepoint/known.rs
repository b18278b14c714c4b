//! The names of the tracepoints that have a payload.

use super::memory_call::{Edge, HostWork, MemoryCallName};

/// A tracepoint that has a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    KvmEntry,
    KvmExit,
    KvmPageFault,
    KvmGuestFault,
    KvmUserspaceExit,
    SetSpte,
    FastPageFault,
    SplitHugePage,
    SpteChanged,
    SpteRequested,
    ZapAllFast,
    KvmUnmapHvaRange,
    KvmDirtyRingPush,
    TlbFlush,
    IommuMap,
    IommuUnmap,
    PageFaultUser,
    PageFaultKernel,
    IoctlEnter,
    IoctlExit,
    MemoryCall(MemoryCallName),
    MemoryCallExit,
    HostWork(HostWork, Edge),
    Xen(KnownXen),
}

/// A tracepoint of system `xen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownXen {
    Mc(KnownMc),
    SetPte,
    SetPteAt,
    SetPteAtomic,
    PteClear,
    PmdClear,
    SetPmd,
    SetPud,
    SetP4d,
    PtepModifyProtStart,
    PtepModifyProtCommit,
    AllocPtpage,
    ReleasePtpage,
    PgdPin,
    PgdUnpin,
    FlushTlbOne,
    FlushTlbMulti,
    WriteCr3,
}

/// A tracepoint of multicalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownMc {
    Batch,
    Issue,
    Entry,
    EntryAlloc,
    Callback,
    FlushReason,
    Flush,
    ExtendArgs,
}

impl Known {
    /// By system and name, as perf has them; ftrace's texts have no system.
    pub(crate) fn named(system: Option<&str>, name: &str) -> Option<Self> {
        let (of, known) = match name {
            // LoongArch has two names.
            "kvm_entry" | "kvm_enter" | "kvm_reenter" => ("kvm", Self::KvmEntry),
            "kvm_exit" => ("kvm", Self::KvmExit),
            "kvm_page_fault" => ("kvm", Self::KvmPageFault),
            "kvm_guest_fault" => ("kvm", Self::KvmGuestFault),
            "kvm_userspace_exit" => ("kvm", Self::KvmUserspaceExit),
            "kvm_mmu_set_spte" => ("kvmmmu", Self::SetSpte),
            "fast_page_fault" => ("kvmmmu", Self::FastPageFault),
            "kvm_mmu_split_huge_page" => ("kvmmmu", Self::SplitHugePage),
            "kvm_tdp_mmu_spte_changed" => ("kvmmmu", Self::SpteChanged),
            "kvm_mmu_spte_requested" => ("kvmmmu", Self::SpteRequested),
            "kvm_mmu_zap_all_fast" => ("kvmmmu", Self::ZapAllFast),
            "kvm_unmap_hva_range" => ("kvm", Self::KvmUnmapHvaRange),
            "kvm_dirty_ring_push" => ("kvm", Self::KvmDirtyRingPush),
            "tlb_flush" => ("tlb", Self::TlbFlush),
            "map" => ("iommu", Self::IommuMap),
            "unmap" => ("iommu", Self::IommuUnmap),
            "page_fault_user" => ("exceptions", Self::PageFaultUser),
            "page_fault_kernel" => ("exceptions", Self::PageFaultKernel),
            "sys_enter_ioctl" => ("syscalls", Self::IoctlEnter),
            "sys_exit_ioctl" => ("syscalls", Self::IoctlExit),
            _ => Self::call(name)
                .or_else(|| Self::host_work(name))
                .or_else(|| Some(("xen", Self::Xen(KnownXen::named(name)?))))?,
        };
        system.is_none_or(|system| system == of).then_some(known)
    }

    fn call(name: &str) -> Option<(&'static str, Self)> {
        if let Some(call) = name.strip_prefix("sys_enter_") {
            let call = MemoryCallName::named(call)?;
            return Some(("syscalls", Self::MemoryCall(call)));
        }
        MemoryCallName::named(name.strip_prefix("sys_exit_")?)?;
        Some(("syscalls", Self::MemoryCallExit))
    }

    fn host_work(name: &str) -> Option<(&'static str, Self)> {
        let (system, work, edge) = HostWork::named(name)?;
        Some((system, Self::HostWork(work, edge)))
    }
}

impl KnownXen {
    fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("xen_")? {
            "mc_batch" => Self::Mc(KnownMc::Batch),
            "mc_issue" => Self::Mc(KnownMc::Issue),
            "mc_entry" => Self::Mc(KnownMc::Entry),
            "mc_entry_alloc" => Self::Mc(KnownMc::EntryAlloc),
            "mc_callback" => Self::Mc(KnownMc::Callback),
            "mc_flush_reason" => Self::Mc(KnownMc::FlushReason),
            "mc_flush" => Self::Mc(KnownMc::Flush),
            "mc_extend_args" => Self::Mc(KnownMc::ExtendArgs),
            "mmu_set_pte" => Self::SetPte,
            "mmu_set_pte_at" => Self::SetPteAt,
            "mmu_set_pte_atomic" => Self::SetPteAtomic,
            "mmu_pte_clear" => Self::PteClear,
            "mmu_pmd_clear" => Self::PmdClear,
            "mmu_set_pmd" => Self::SetPmd,
            "mmu_set_pud" => Self::SetPud,
            "mmu_set_p4d" => Self::SetP4d,
            "mmu_ptep_modify_prot_start" => Self::PtepModifyProtStart,
            "mmu_ptep_modify_prot_commit" => Self::PtepModifyProtCommit,
            "mmu_alloc_ptpage" => Self::AllocPtpage,
            "mmu_release_ptpage" => Self::ReleasePtpage,
            "mmu_pgd_pin" => Self::PgdPin,
            "mmu_pgd_unpin" => Self::PgdUnpin,
            "mmu_flush_tlb_one_user" | "mmu_flush_tlb_single" => Self::FlushTlbOne,
            "mmu_flush_tlb_multi" | "mmu_flush_tlb_others" => Self::FlushTlbMulti,
            "mmu_write_cr3" => Self::WriteCr3,
            _ => return None,
        })
    }
}
