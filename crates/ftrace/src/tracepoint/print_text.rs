//! Printed events to payloads. The texts are those of the tracepoints' `TP_printk`, and of libtraceevent's plugins, which
//! perf and trace-cmd print `kvm_exit` by.

use pagetoll_units::{Bytes, Gfn, Gpa, Hva, MachineAddress, VirtualAddress};

use super::known::{KnownMc, KnownXen};
use super::payload::user_address;
use super::words::{Missing, Words};
use super::{
    FastPageFault, Iova, Known, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush, Names,
    PageFault, Payload, SetSpte, SplitHugePage, SpteChanged, TlbFlush, TlbFlushReason,
    UserspaceExit, Xen, XenMmuOp, exit_reason,
};

impl Known {
    /// Reads the text that follows the event's name.
    pub(crate) fn of_text(self, text: &str, names: &mut Names) -> Result<Payload, Missing> {
        let words = Words(text);
        match self {
            Self::KvmEntry => kvm_entry(words).map(Payload::KvmEntry),
            Self::KvmExit => kvm_exit(words, names).map(Payload::KvmExit),
            Self::KvmPageFault => kvm_page_fault(words).map(Payload::KvmPageFault),
            Self::KvmGuestFault => kvm_guest_fault(words).map(Payload::KvmGuestFault),
            Self::KvmUserspaceExit => userspace_exit(words, names).map(Payload::KvmUserspaceExit),
            Self::SetSpte => set_spte(words).map(Payload::SetSpte),
            Self::FastPageFault => fast_page_fault(words).map(Payload::FastPageFault),
            Self::SplitHugePage => split_huge_page(words).map(Payload::SplitHugePage),
            Self::SpteChanged => spte_changed(words).map(Payload::SpteChanged),
            Self::KvmUnmapHvaRange => unmap_hva_range(words),
            Self::KvmDirtyRingPush => dirty_ring_push(words),
            Self::TlbFlush => tlb_flush(words).map(Payload::TlbFlush),
            Self::IommuMap => iommu_map(words),
            Self::IommuUnmap => iommu_unmap(words),
            Self::PageFaultUser => page_fault(words).map(Payload::PageFaultUser),
            Self::PageFaultKernel => page_fault(words).map(Payload::PageFaultKernel),
            Self::IoctlEnter => ioctl_enter(words),
            Self::IoctlExit => ioctl_exit(words),
            Self::Xen(known) => xen(known, words).map(Payload::Xen),
        }
    }
}

/// `vcpu 0, rip 0xffffffff81000000 ..`; older kernels `vcpu 0`; `PC: 0x0000aaaa` on arm64.
fn kvm_entry(mut words: Words<'_>) -> Result<KvmEntry, Missing> {
    let pc = match words.hex_if_there("PC: ")? {
        Some(pc) => Some(pc),
        None => words.hex_if_there("rip ")?,
    };
    let pc = pc.map(VirtualAddress);
    if pc.is_none() {
        words.decimal::<u32>("vcpu ")?;
    }
    Ok(KvmEntry { pc })
}

/// `reason EPT_VIOLATION rip 0xfff0 info 184 0`; since 5.10 `vcpu 0` stands before it and `info1 0x.. info2 0x.. intr_info ..`
/// behind it; newer kernels add `requests`. The plugin prints the first form, whatever the kernel.
fn kvm_exit(mut words: Words<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    if words.0.contains("_EC: ") {
        return kvm_exit_of_arm64(words, names);
    }
    let reason = exit_reason::normal(words.between("reason ", " rip ")?);
    let pc = VirtualAddress(words.hex(" rip ")?);
    let (info1, info2) = match words.hex_if_there(" info1 ")? {
        Some(info1) => (Some(info1), Some(words.hex(" info2 ")?)),
        None => match words.hex_if_there(" info ")? {
            Some(info1) => (Some(info1), Some(words.hex(" ")?)),
            None => (None, None),
        },
    };
    Ok(KvmExit {
        reason: names.intern(&reason),
        pc,
        info1,
        info2,
    })
}

/// `TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x0000ffff80000000`, `IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: ..`.
fn kvm_exit_of_arm64(mut words: Words<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    let (exception, _) = words.0.split_once(':').ok_or(Missing("exception"))?;
    let class = words.between("(", ")")?;
    let reason = if exception.trim() == "TRAP" {
        class
    } else {
        exception.trim()
    };
    Ok(KvmExit {
        reason: names.intern(reason),
        pc: VirtualAddress(words.hex("PC: ")?),
        info1: None,
        info2: None,
    })
}

/// `vcpu 0 rip 0x.. address 0x0000000000001000 error_code 0x6`; older kernels `address 1000 error_code 6`.
fn kvm_page_fault(mut words: Words<'_>) -> Result<KvmPageFault, Missing> {
    Ok(KvmPageFault {
        address: words.hex("address ")?,
        error_code: words.hex("error_code ")?,
    })
}

/// `ipa 0x80000000, hsr 0x92000047, hxfar 0x.., pc 0x..`; the first is `0` where it is none.
fn kvm_guest_fault(mut words: Words<'_>) -> Result<KvmGuestFault, Missing> {
    Ok(KvmGuestFault {
        ipa: Gpa(words.hex("ipa ")?),
        hsr: words.hex("hsr ")?,
        pc: VirtualAddress(words.hex(" pc ")?),
    })
}

/// `reason KVM_EXIT_MMIO (6)`; ftrace prints `reason restart (4)`, `reason error (14)` where an errno was returned.
fn userspace_exit(mut words: Words<'_>, names: &mut Names) -> Result<UserspaceExit, Missing> {
    let reason = words.between("reason ", " (")?;
    let number: i32 = words.decimal(" (")?;
    let errno = matches!(reason, "restart" | "error").then_some(-number);
    Ok(UserspaceExit {
        reason: names.intern(super::userspace_exit::normal(reason)),
        errno,
    })
}

/// `gfn 1b9286 spte 1b9286e67 (rwxu) level 1 at 327228508`.
fn set_spte(mut words: Words<'_>) -> Result<SetSpte, Missing> {
    Ok(SetSpte {
        gfn: Gfn(words.hex("gfn ")?),
        spte: words.hex("spte ")?,
        level: words.decimal("level ")?,
    })
}

/// `vcpu 0 gva 1000 error_code P|W sptep 0x.. old 0x.. new .. spurious 0 fixed 1`.
fn fast_page_fault(mut words: Words<'_>) -> Result<FastPageFault, Missing> {
    Ok(FastPageFault {
        address: words.hex("gva ")?,
        error_code: error_code(words.between("error_code ", "sptep")?)?,
        old_spte: words.hex(" old ")?,
        new_spte: words.hex(" new ")?,
        spurious: words.decimal::<u32>("spurious ")? != 0,
        fixed: words.decimal::<u32>("fixed ")? != 0,
    })
}

/// The names that `kvm_mmu_trace_pferr_flags` gives to the bits of an error code; bits without a name follow in hex.
const PFERR: [(&str, u64); 8] = [
    ("P", 1),
    ("W", 1 << 1),
    ("U", 1 << 2),
    ("RSVD", 1 << 3),
    ("F", 1 << 4),
    ("PK", 1 << 5),
    ("SS", 1 << 6),
    ("SGX", 1 << 15),
];

fn error_code(flags: &str) -> Result<u64, Missing> {
    let mut code = 0;
    for flag in flags.trim().split('|').filter(|flag| !flag.is_empty()) {
        let named = PFERR.iter().find(|(name, _)| *name == flag);
        code |= match named {
            Some((_, bit)) => *bit,
            None => Words(flag).hex("0x").map_err(|_| Missing("error_code "))?,
        };
    }
    Ok(code)
}

/// `gfn 1000 spte 600000001000b77 level 2 errno 0`.
fn split_huge_page(mut words: Words<'_>) -> Result<SplitHugePage, Missing> {
    Ok(SplitHugePage {
        gfn: Gfn(words.hex("gfn ")?),
        spte: words.hex("spte ")?,
        level: words.decimal("level ")?,
        errno: words.decimal("errno ")?,
    })
}

/// `as id 0 gfn 1000 level 2 old_spte 0 new_spte 600000001000b77`.
fn spte_changed(mut words: Words<'_>) -> Result<SpteChanged, Missing> {
    Ok(SpteChanged {
        gfn: Gfn(words.hex("gfn ")?),
        level: words.decimal("level ")?,
        old_spte: words.hex("old_spte ")?,
        new_spte: words.hex("new_spte ")?,
    })
}

/// `mmu notifier unmap range: 0x007f5b1ec00000 -- 0x007f5b1ee00000`.
fn unmap_hva_range(mut words: Words<'_>) -> Result<Payload, Missing> {
    Ok(Payload::KvmUnmapHvaRange {
        start: Hva(words.hex("range: ")?),
        end: Hva(words.hex("-- ")?),
    })
}

/// `ring 0: dirty 0x1 reset 0x0 slot 1 offset 0x1000 (used 1)`.
fn dirty_ring_push(mut words: Words<'_>) -> Result<Payload, Missing> {
    Ok(Payload::KvmDirtyRingPush {
        slot: words.decimal("slot ")?,
        offset: words.hex("offset ")?,
    })
}

/// `pages:1 reason:local MM shootdown (3)`, `pages:-1` for all.
fn tlb_flush(mut words: Words<'_>) -> Result<TlbFlush, Missing> {
    let pages: i64 = words.decimal("pages:")?;
    Ok(TlbFlush {
        pages: u64::try_from(pages).ok(),
        reason: TlbFlushReason::from_number(words.decimal("(")?),
    })
}

/// `IOMMU: iova=0x.. - 0x.. paddr=0x.. size=4096`; older kernels print no end.
fn iommu_map(mut words: Words<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IommuMap {
        iova: Iova(words.hex("iova=")?),
        paddr: MachineAddress(words.hex("paddr=")?),
        size: Bytes(words.decimal("size=")?),
    })
}

/// `IOMMU: iova=0x.. - 0x.. size=4096 unmapped_size=4096`.
fn iommu_unmap(mut words: Words<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IommuUnmap {
        iova: Iova(words.hex("iova=")?),
        size: Bytes(words.decimal(" size=")?),
        unmapped_size: Bytes(words.decimal("unmapped_size=")?),
    })
}

/// `address=0x7fc741d45e06 ip=0x7fc741d2d7ad error_code=0x6`; a symbol in the place of a kernel's address.
fn page_fault(mut words: Words<'_>) -> Result<PageFault, Missing> {
    Ok(PageFault {
        address: words.hex_or_symbol("address=")?.and_then(user_address),
        ip: words.hex_or_symbol("ip=")?.and_then(user_address),
        error_code: words.hex("error_code=")?,
    })
}

/// `fd: 0x00000004, cmd: 0xc028aa03, arg: 0x7f..`; ftrace prints no `0x`.
fn ioctl_enter(mut words: Words<'_>) -> Result<Payload, Missing> {
    let low = |value: u64, key| u32::try_from(value & 0xffff_ffff).map_err(|_| Missing(key));
    Ok(Payload::IoctlEnter {
        fd: low(words.hex("fd: ")?, "fd: ")?,
        cmd: low(words.hex("cmd: ")?, "cmd: ")?,
        arg: words.hex("arg: ")?,
    })
}

/// `0x0`; ftrace prints `-> 0x0`.
fn ioctl_exit(mut words: Words<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IoctlExit {
        ret: words.hex("0x")?.cast_signed(),
    })
}

fn xen(known: KnownXen, mut words: Words<'_>) -> Result<Xen, Missing> {
    use KnownXen as Is;
    let mut raw = || words.hex("(raw ");
    let operation = match known {
        Is::SetPte => XenMmuOp::SetPte(raw()?),
        Is::SetPteAt => XenMmuOp::SetPteAt(raw()?),
        Is::SetPteAtomic => XenMmuOp::SetPteAtomic(raw()?),
        Is::SetPmd => XenMmuOp::SetPmd(raw()?),
        Is::SetPud => XenMmuOp::SetPud(raw()?),
        Is::SetP4d => XenMmuOp::SetP4d(raw()?),
        Is::PtepModifyProtStart => XenMmuOp::PtepModifyProtStart(raw()?),
        Is::PtepModifyProtCommit => XenMmuOp::PtepModifyProtCommit(raw()?),
        Is::PteClear => XenMmuOp::PteClear,
        Is::PmdClear => XenMmuOp::PmdClear,
        Is::AllocPtpage => XenMmuOp::AllocPtpage,
        Is::ReleasePtpage => XenMmuOp::ReleasePtpage,
        Is::PgdPin => XenMmuOp::PgdPin,
        Is::PgdUnpin => XenMmuOp::PgdUnpin,
        Is::FlushTlbOne => return words.hex("addr ").map(VirtualAddress).map(Xen::FlushTlbOne),
        Is::FlushTlbMulti => return xen_flush_tlb_multi(words),
        Is::WriteCr3 => return words.hex("cr3 ").map(Xen::WriteCr3),
        Is::Mc(known) => return xen_mc(known, words),
    };
    Ok(Xen::Mmu(operation))
}

/// `ncpus 2 mm 0x.. addr 7f0000000000, end 7f0000001000`.
fn xen_flush_tlb_multi(mut words: Words<'_>) -> Result<Xen, Missing> {
    Ok(Xen::FlushTlbMulti {
        cpus: words.decimal("ncpus ")?,
        start: VirtualAddress(words.hex("addr ")?),
        end: VirtualAddress(words.hex("end ")?),
    })
}

fn xen_mc(known: KnownMc, mut words: Words<'_>) -> Result<Xen, Missing> {
    Ok(match known {
        // `op 1(mmu_update) args [ffff.., 2, 0, 7ff0, 0, 0]`
        KnownMc::Entry => Xen::McEntry {
            op: words.decimal("op ")?,
            args: [words.hex("args [")?, words.hex(", ")?],
        },
        KnownMc::EntryAlloc => Xen::McEntryAlloc(words.decimal("alloc entry ")?),
        KnownMc::ExtendArgs => Xen::McExtendArgs {
            op: words.decimal("op ")?,
            bytes: words.decimal(" by ")?,
        },
        // `flushing 2 hypercalls, 32 arg bytes, 0 callbacks`
        KnownMc::Flush => Xen::McFlush(McFlush {
            hypercalls: words.decimal("flushing ")?,
            arg_bytes: words.decimal(", ")?,
            callbacks: words.decimal(", ")?,
        }),
        KnownMc::Issue => Xen::McIssue,
        KnownMc::Callback => Xen::McCallback,
        KnownMc::FlushReason => Xen::McFlushReason,
        KnownMc::Batch => Xen::McBatch,
    })
}
