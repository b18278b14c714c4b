//! The tracepoints of a Xen PV guest: its multicalls, and what it does to page tables.
//!
//! Source: `include/trace/events/xen.h` of Linux 4.19 to 6.18. Older names of the same operation are the newer's:
//! `xen_mmu_flush_tlb_single`, `xen_mmu_flush_tlb_others`.

use pagetoll_units::VirtualAddress;

/// An event of system `xen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xen {
    /// `xen_mc_batch`: calls are collected from here on.
    McBatch,
    /// `xen_mc_issue`: what was collected may be issued.
    McIssue,
    /// `xen_mc_entry`: a call was added.
    McEntry {
        /// The hypercall: 1 is `mmu_update`.
        op: u32,
        /// Its first two arguments; of `mmu_update` and `mmuext_op` the second is the count.
        args: [u64; 2],
    },
    /// `xen_mc_entry_alloc`: bytes of arguments.
    McEntryAlloc(u64),
    /// `xen_mc_callback`: a function to call after the flush.
    McCallback,
    /// `xen_mc_flush_reason`.
    McFlushReason,
    /// `xen_mc_flush`: one multicall.
    McFlush(McFlush),
    /// `xen_mc_extend_args`: arguments were added to the last call of this hypercall, if there was space.
    McExtendArgs {
        /// The hypercall.
        op: u32,
        /// Bytes of arguments.
        bytes: u64,
    },
    /// An operation on page tables.
    Mmu(XenMmuOp),
    /// `xen_mmu_flush_tlb_one_user`.
    FlushTlbOne(VirtualAddress),
    /// `xen_mmu_flush_tlb_multi`.
    FlushTlbMulti {
        /// Number of CPUs.
        cpus: u32,
        /// First address.
        start: VirtualAddress,
        /// Behind the last, `!0` for all.
        end: VirtualAddress,
    },
    /// `xen_mmu_write_cr3`.
    WriteCr3(u64),
}

/// Size of a multicall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McFlush {
    /// Calls.
    pub hypercalls: u32,
    /// Bytes of arguments.
    pub arg_bytes: u32,
    /// Functions called after it.
    pub callbacks: u32,
}

/// An event `xen_mmu_*`, with the value that is written as Xen sees it (`raw`), where it writes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XenMmuOp {
    /// `xen_mmu_set_pte`.
    SetPte(u64),
    /// `xen_mmu_set_pte_at`.
    SetPteAt(u64),
    /// `xen_mmu_set_pte_atomic`; 32-bit guests before 7.2.
    SetPteAtomic(u64),
    /// `xen_mmu_pte_clear`; 32-bit guests before 7.2.
    PteClear,
    /// `xen_mmu_pmd_clear`; 32-bit guests before 7.2.
    PmdClear,
    /// `xen_mmu_set_pmd`.
    SetPmd(u64),
    /// `xen_mmu_set_pud`.
    SetPud(u64),
    /// `xen_mmu_set_p4d`.
    SetP4d(u64),
    /// `xen_mmu_ptep_modify_prot_start`.
    PtepModifyProtStart(u64),
    /// `xen_mmu_ptep_modify_prot_commit`.
    PtepModifyProtCommit(u64),
    /// `xen_mmu_alloc_ptpage`.
    AllocPtpage,
    /// `xen_mmu_release_ptpage`.
    ReleasePtpage,
    /// `xen_mmu_pgd_pin`.
    PgdPin,
    /// `xen_mmu_pgd_unpin`.
    PgdUnpin,
}
