//! Recorded events to payloads, whatever form they are in.

use pagetoll_units::VirtualAddress;

use super::known::{KnownMc, KnownXen};
use super::words::Missing;
use super::{
    FastPageFault, Known, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush, MemoryCall,
    MemoryCallName, Names, PageFault, Payload, SetSpte, SplitHugePage, SpteChanged, SpteRequested,
    TlbFlush, UserspaceExit, Xen, XenMmuOp,
};

/// Fields of an event in one form, binary or printed. A tracepoint that a form cannot read does not compile.
pub(crate) trait Record: Sized {
    fn kvm_entry(self) -> Result<KvmEntry, Missing>;
    fn kvm_exit(self, names: &mut Names) -> Result<KvmExit, Missing>;
    fn kvm_page_fault(self) -> Result<KvmPageFault, Missing>;
    fn kvm_guest_fault(self) -> Result<KvmGuestFault, Missing>;
    fn userspace_exit(self, names: &mut Names) -> Result<UserspaceExit, Missing>;
    fn set_spte(self) -> Result<SetSpte, Missing>;
    fn fast_page_fault(self) -> Result<FastPageFault, Missing>;
    fn split_huge_page(self) -> Result<SplitHugePage, Missing>;
    fn spte_changed(self) -> Result<SpteChanged, Missing>;
    fn spte_requested(self) -> Result<SpteRequested, Missing>;
    fn unmap_hva_range(self) -> Result<Payload, Missing>;
    fn dirty_ring_push(self) -> Result<Payload, Missing>;
    fn tlb_flush(self) -> Result<TlbFlush, Missing>;
    fn iommu_map(self) -> Result<Payload, Missing>;
    fn iommu_unmap(self) -> Result<Payload, Missing>;
    fn page_fault(self) -> Result<PageFault, Missing>;
    fn ioctl_enter(self) -> Result<Payload, Missing>;
    fn ioctl_exit(self) -> Result<Payload, Missing>;
    fn memory_call(self, name: MemoryCallName) -> Result<MemoryCall, Missing>;
    /// A page-table entry: the binary form has it in this field.
    fn xen_entry(self, field: &'static str) -> Result<u64, Missing>;
    fn xen_flush_tlb_one(self) -> Result<VirtualAddress, Missing>;
    fn xen_flush_tlb_multi(self) -> Result<Xen, Missing>;
    fn xen_write_cr3(self) -> Result<u64, Missing>;
    fn xen_mc_entry(self) -> Result<Xen, Missing>;
    fn xen_mc_entry_alloc(self) -> Result<u64, Missing>;
    fn xen_mc_extend_args(self) -> Result<Xen, Missing>;
    fn xen_mc_flush(self) -> Result<McFlush, Missing>;
}

impl Known {
    /// Reads a record of this event.
    pub(crate) fn payload(
        self,
        record: impl Record,
        names: &mut Names,
    ) -> Result<Payload, Missing> {
        match self {
            Self::KvmEntry => record.kvm_entry().map(Payload::KvmEntry),
            Self::KvmExit => record.kvm_exit(names).map(Payload::KvmExit),
            Self::KvmPageFault => record.kvm_page_fault().map(Payload::KvmPageFault),
            Self::KvmGuestFault => record.kvm_guest_fault().map(Payload::KvmGuestFault),
            Self::KvmUserspaceExit => record.userspace_exit(names).map(Payload::KvmUserspaceExit),
            Self::SetSpte => record.set_spte().map(Payload::SetSpte),
            Self::FastPageFault => record.fast_page_fault().map(Payload::FastPageFault),
            Self::SplitHugePage => record.split_huge_page().map(Payload::SplitHugePage),
            Self::SpteChanged => record.spte_changed().map(Payload::SpteChanged),
            Self::SpteRequested => record.spte_requested().map(Payload::SpteRequested),
            Self::ZapAllFast => Ok(Payload::ZapAllFast),
            Self::KvmUnmapHvaRange => record.unmap_hva_range(),
            Self::KvmDirtyRingPush => record.dirty_ring_push(),
            Self::TlbFlush => record.tlb_flush().map(Payload::TlbFlush),
            Self::IommuMap => record.iommu_map(),
            Self::IommuUnmap => record.iommu_unmap(),
            Self::PageFaultUser => record.page_fault().map(Payload::PageFaultUser),
            Self::PageFaultKernel => record.page_fault().map(Payload::PageFaultKernel),
            Self::IoctlEnter => record.ioctl_enter(),
            Self::IoctlExit => record.ioctl_exit(),
            Self::MemoryCall(name) => record.memory_call(name).map(Payload::MemoryCall),
            Self::MemoryCallExit => Ok(Payload::MemoryCallExit),
            Self::HostWork(work, edge) => Ok(Payload::HostWork(work, edge)),
            Self::Xen(known) => known.payload(record).map(Payload::Xen),
        }
    }
}

impl KnownXen {
    fn payload(self, record: impl Record) -> Result<Xen, Missing> {
        let operation = match self {
            Self::SetPte => XenMmuOp::SetPte(record.xen_entry("pteval")?),
            Self::SetPteAt => XenMmuOp::SetPteAt(record.xen_entry("pteval")?),
            Self::SetPteAtomic => XenMmuOp::SetPteAtomic(record.xen_entry("pteval")?),
            Self::PtepModifyProtStart => XenMmuOp::PtepModifyProtStart(record.xen_entry("pteval")?),
            Self::PtepModifyProtCommit => {
                XenMmuOp::PtepModifyProtCommit(record.xen_entry("pteval")?)
            }
            Self::SetPmd => XenMmuOp::SetPmd(record.xen_entry("pmdval")?),
            Self::SetPud => XenMmuOp::SetPud(record.xen_entry("pudval")?),
            Self::SetP4d => XenMmuOp::SetP4d(record.xen_entry("p4dval")?),
            Self::PteClear => XenMmuOp::PteClear,
            Self::PmdClear => XenMmuOp::PmdClear,
            Self::AllocPtpage => XenMmuOp::AllocPtpage,
            Self::ReleasePtpage => XenMmuOp::ReleasePtpage,
            Self::PgdPin => XenMmuOp::PgdPin,
            Self::PgdUnpin => XenMmuOp::PgdUnpin,
            Self::FlushTlbOne => return record.xen_flush_tlb_one().map(Xen::FlushTlbOne),
            Self::FlushTlbMulti => return record.xen_flush_tlb_multi(),
            Self::WriteCr3 => return record.xen_write_cr3().map(Xen::WriteCr3),
            Self::Mc(known) => return known.payload(record),
        };
        Ok(Xen::Mmu(operation))
    }
}

impl KnownMc {
    fn payload(self, record: impl Record) -> Result<Xen, Missing> {
        match self {
            Self::Entry => record.xen_mc_entry(),
            Self::EntryAlloc => record.xen_mc_entry_alloc().map(Xen::McEntryAlloc),
            Self::ExtendArgs => record.xen_mc_extend_args(),
            Self::Flush => record.xen_mc_flush().map(Xen::McFlush),
            Self::Issue => Ok(Xen::McIssue),
            Self::Callback => Ok(Xen::McCallback),
            Self::FlushReason => Ok(Xen::McFlushReason),
            Self::Batch => Ok(Xen::McBatch),
        }
    }
}
