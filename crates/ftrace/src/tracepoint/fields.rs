//! Binary records to payloads, by the names of their fields.

use pagetoll_units::{Bytes, Gfn, Gpa, Hva, MachineAddress, VirtualAddress};

use super::known::{KnownMc, KnownXen};
use super::payload::user_address;
use super::words::Missing;
use super::{
    FastPageFault, Format, Iova, Known, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush,
    Name, Names, PageFault, Payload, SetSpte, SplitHugePage, SpteChanged, TlbFlush, TlbFlushReason,
    UserspaceExit, Xen, XenMmuOp, exit_reason,
};

/// A record of the trace buffer, little-endian, and its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub(crate) format: &'a Format,
    pub(crate) bytes: &'a [u8],
}

impl RawRecord<'_> {
    /// A number of up to eight bytes; a signed one is extended.
    fn number(&self, name: &'static str) -> Result<u64, Missing> {
        let field = self.format.field(name).ok_or(Missing(name))?;
        let value = self.at(field.offset, field.size).ok_or(Missing(name))?;
        let unused = 64 - 8 * u32::try_from(field.size).unwrap_or(8);
        Ok(match field.signed {
            true => ((value << unused).cast_signed() >> unused).cast_unsigned(),
            false => value,
        })
    }

    /// [`Self::number`] of a field that some kernels lack.
    fn number_if_there(&self, name: &'static str) -> Result<Option<u64>, Missing> {
        match self.format.field(name) {
            Some(_) => self.number(name).map(Some),
            None => Ok(None),
        }
    }

    /// The first 32 bits of a number.
    fn word(&self, name: &'static str) -> Result<u32, Missing> {
        let value = self.number(name)? & 0xffff_ffff;
        u32::try_from(value).map_err(|_too_large| Missing(name))
    }

    /// An element of an array of longs.
    fn long(&self, name: &'static str, index: usize) -> Result<u64, Missing> {
        let field = self.format.field(name).ok_or(Missing(name))?;
        let at = field.offset.checked_add(8 * index);
        let inside = 8 * (index + 1) <= field.size;
        let value = at.filter(|_| inside).and_then(|at| self.at(at, 8));
        value.ok_or(Missing(name))
    }

    fn at(&self, offset: usize, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(offset..offset.checked_add(size)?)?;
        let mut value = [0; 8];
        value.get_mut(..size)?.copy_from_slice(bytes);
        (size > 0).then_some(u64::from_le_bytes(value))
    }

    /// The name of a number by the table that the format has for an expression that contains the field.
    fn symbol(&self, table: usize, number: u32, names: &mut Names) -> Name {
        let table = self.format.symbols.get(table);
        let name = table.and_then(|table| table.name(number));
        match name {
            Some(name) => names.intern(&exit_reason::normal(name)),
            None => names.intern(&exit_reason::number(number.into())),
        }
    }

    fn address(&self, name: &'static str) -> Result<VirtualAddress, Missing> {
        self.number(name).map(VirtualAddress)
    }
}

impl Known {
    /// Reads a record of this event.
    pub(crate) fn of_record(
        self,
        record: RawRecord<'_>,
        names: &mut Names,
    ) -> Result<Payload, Missing> {
        match self {
            Self::KvmEntry => kvm_entry(record).map(Payload::KvmEntry),
            Self::KvmExit => kvm_exit(record, names).map(Payload::KvmExit),
            Self::KvmPageFault => kvm_page_fault(record).map(Payload::KvmPageFault),
            Self::KvmGuestFault => kvm_guest_fault(record).map(Payload::KvmGuestFault),
            Self::KvmUserspaceExit => userspace_exit(record, names).map(Payload::KvmUserspaceExit),
            Self::SetSpte => set_spte(record).map(Payload::SetSpte),
            Self::FastPageFault => fast_page_fault(record).map(Payload::FastPageFault),
            Self::SplitHugePage => split_huge_page(record).map(Payload::SplitHugePage),
            Self::SpteChanged => spte_changed(record).map(Payload::SpteChanged),
            Self::KvmUnmapHvaRange => unmap_hva_range(record),
            Self::KvmDirtyRingPush => dirty_ring_push(record),
            Self::TlbFlush => tlb_flush(record).map(Payload::TlbFlush),
            Self::IommuMap => iommu_map(record),
            Self::IommuUnmap => iommu_unmap(record),
            Self::PageFaultUser => page_fault(record).map(Payload::PageFaultUser),
            Self::PageFaultKernel => page_fault(record).map(Payload::PageFaultKernel),
            Self::IoctlEnter => ioctl_enter(record),
            Self::IoctlExit => ioctl_exit(record),
            Self::Xen(known) => xen(known, record).map(Payload::Xen),
        }
    }
}

fn kvm_entry(record: RawRecord<'_>) -> Result<KvmEntry, Missing> {
    let pc = match record.number_if_there("vcpu_pc")? {
        Some(pc) => Some(pc),
        None => record.number_if_there("rip")?,
    };
    Ok(KvmEntry {
        pc: pc.map(VirtualAddress),
    })
}

/// `KVM_ISA_VMX`; SVM is 2.
const KVM_ISA_VMX: u64 = 1;

fn kvm_exit(record: RawRecord<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    if record.format.field("esr_ec").is_some() {
        return kvm_exit_of_arm64(record, names);
    }
    let reason = record.word("exit_reason")?;
    let vmx = record.number_if_there("isa")?.unwrap_or(KVM_ISA_VMX) == KVM_ISA_VMX;
    // The print format has VMX's table, then SVM's. The upper half of VMX's reason is flags.
    let reason = match vmx {
        true => record.symbol(0, reason & 0xffff, names),
        false => record.symbol(1, reason, names),
    };
    Ok(KvmExit {
        reason,
        pc: record.address("guest_rip")?,
        info1: record.number_if_there("info1")?,
        info2: record.number_if_there("info2")?,
    })
}

fn kvm_exit_of_arm64(record: RawRecord<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    let exception = record.symbol(0, record.word("ret")?, names);
    let class = record.symbol(1, record.word("esr_ec")?, names);
    let trap = exception.as_ref() == "TRAP";
    Ok(KvmExit {
        reason: if trap { class } else { exception },
        pc: record.address("vcpu_pc")?,
        info1: None,
        info2: None,
    })
}

fn kvm_page_fault(record: RawRecord<'_>) -> Result<KvmPageFault, Missing> {
    Ok(KvmPageFault {
        address: record.number("fault_address")?,
        error_code: record.number("error_code")?,
    })
}

fn kvm_guest_fault(record: RawRecord<'_>) -> Result<KvmGuestFault, Missing> {
    Ok(KvmGuestFault {
        ipa: Gpa(record.number("ipa")?),
        hsr: record.number("hsr")?,
        pc: record.address("vcpu_pc")?,
    })
}

fn userspace_exit(record: RawRecord<'_>, names: &mut Names) -> Result<UserspaceExit, Missing> {
    let reason = record.symbol(0, record.word("reason")?, names);
    Ok(UserspaceExit {
        reason: names.intern(super::userspace_exit::normal(&reason)),
        errno: Some(record.word("errno")?.cast_signed()),
    })
}

fn set_spte(record: RawRecord<'_>) -> Result<SetSpte, Missing> {
    Ok(SetSpte {
        gfn: Gfn(record.number("gfn")?),
        spte: record.number("spte")?,
        level: record.word("level")?,
    })
}

fn fast_page_fault(record: RawRecord<'_>) -> Result<FastPageFault, Missing> {
    let (old_spte, new_spte) = (record.number("old_spte")?, record.number("new_spte")?);
    let (spurious, fixed) = match record.number_if_there("ret")? {
        Some(ret) => outcome(&record.format.print, ret),
        None => outcome_before_5_10(record.number("retry")? != 0, old_spte, new_spte),
    };
    Ok(FastPageFault {
        address: record.number("cr2_or_gpa")?,
        error_code: record.number("error_code")? & PFERR_NAMED,
        old_spte,
        new_spte,
        spurious,
        fixed,
    })
}

/// The bits of an error code that the printed form names.
const PFERR_NAMED: u64 = 0x807f;

/// `RET_PF_SPURIOUS` and `RET_PF_FIXED` differ by kernel; the print format has both: `REC->ret == 6, REC->ret == 5`.
fn outcome(print: &str, ret: u64) -> (bool, bool) {
    let mut numbers = print.split("REC->ret == ").skip(1).map(|text| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse() == Ok(ret)
    });
    let spurious = numbers.next().unwrap_or(false);
    (spurious, numbers.next().unwrap_or(false))
}

/// `__spte_satisfied` of `mmutrace.h`: the attempt was made and the entry is writable.
const fn outcome_before_5_10(retry: bool, old_spte: u64, new_spte: u64) -> (bool, bool) {
    const WRITABLE: u64 = 1 << 1;
    (
        retry && old_spte & WRITABLE != 0,
        retry && new_spte & WRITABLE != 0,
    )
}

fn split_huge_page(record: RawRecord<'_>) -> Result<SplitHugePage, Missing> {
    Ok(SplitHugePage {
        gfn: Gfn(record.number("gfn")?),
        spte: record.number("spte")?,
        level: record.word("level")?,
        errno: record.word("errno")?.cast_signed(),
    })
}

fn spte_changed(record: RawRecord<'_>) -> Result<SpteChanged, Missing> {
    Ok(SpteChanged {
        gfn: Gfn(record.number("gfn")?),
        level: record.word("level")?,
        old_spte: record.number("old_spte")?,
        new_spte: record.number("new_spte")?,
    })
}

fn unmap_hva_range(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::KvmUnmapHvaRange {
        start: Hva(record.number("start")?),
        end: Hva(record.number("end")?),
    })
}

fn dirty_ring_push(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::KvmDirtyRingPush {
        slot: record.word("slot")?,
        offset: record.number("offset")?,
    })
}

fn tlb_flush(record: RawRecord<'_>) -> Result<TlbFlush, Missing> {
    let pages = record.number("pages")?.cast_signed();
    Ok(TlbFlush {
        pages: u64::try_from(pages).ok(),
        reason: TlbFlushReason::from_number(record.word("reason")?),
    })
}

fn iommu_map(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IommuMap {
        iova: Iova(record.number("iova")?),
        paddr: MachineAddress(record.number("paddr")?),
        size: Bytes(record.number("size")?),
    })
}

fn iommu_unmap(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IommuUnmap {
        iova: Iova(record.number("iova")?),
        size: Bytes(record.number("size")?),
        unmapped_size: Bytes(record.number("unmapped_size")?),
    })
}

fn page_fault(record: RawRecord<'_>) -> Result<PageFault, Missing> {
    Ok(PageFault {
        address: user_address(record.number("address")?),
        ip: user_address(record.number("ip")?),
        error_code: record.number("error_code")?,
    })
}

fn ioctl_enter(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IoctlEnter {
        fd: record.word("fd")?,
        cmd: record.word("cmd")?,
        arg: record.number("arg")?,
    })
}

fn ioctl_exit(record: RawRecord<'_>) -> Result<Payload, Missing> {
    Ok(Payload::IoctlExit {
        ret: record.number("ret")?.cast_signed(),
    })
}

fn xen(known: KnownXen, record: RawRecord<'_>) -> Result<Xen, Missing> {
    use KnownXen as Is;
    let pte = || record.number("pteval");
    let operation = match known {
        Is::SetPte => XenMmuOp::SetPte(pte()?),
        Is::SetPteAt => XenMmuOp::SetPteAt(pte()?),
        Is::SetPteAtomic => XenMmuOp::SetPteAtomic(pte()?),
        Is::PtepModifyProtStart => XenMmuOp::PtepModifyProtStart(pte()?),
        Is::PtepModifyProtCommit => XenMmuOp::PtepModifyProtCommit(pte()?),
        Is::SetPmd => XenMmuOp::SetPmd(record.number("pmdval")?),
        Is::SetPud => XenMmuOp::SetPud(record.number("pudval")?),
        Is::SetP4d => XenMmuOp::SetP4d(record.number("p4dval")?),
        Is::PteClear => XenMmuOp::PteClear,
        Is::PmdClear => XenMmuOp::PmdClear,
        Is::AllocPtpage => XenMmuOp::AllocPtpage,
        Is::ReleasePtpage => XenMmuOp::ReleasePtpage,
        Is::PgdPin => XenMmuOp::PgdPin,
        Is::PgdUnpin => XenMmuOp::PgdUnpin,
        Is::FlushTlbOne => return record.address("addr").map(Xen::FlushTlbOne),
        Is::FlushTlbMulti => return xen_flush_tlb_multi(record),
        Is::WriteCr3 => return record.number("cr3").map(Xen::WriteCr3),
        Is::Mc(known) => return xen_mc(known, record),
    };
    Ok(Xen::Mmu(operation))
}

fn xen_flush_tlb_multi(record: RawRecord<'_>) -> Result<Xen, Missing> {
    Ok(Xen::FlushTlbMulti {
        cpus: record.word("ncpus")?,
        start: record.address("addr")?,
        end: record.address("end")?,
    })
}

fn xen_mc(known: KnownMc, record: RawRecord<'_>) -> Result<Xen, Missing> {
    Ok(match known {
        KnownMc::Entry => Xen::McEntry {
            op: record.word("op")?,
            args: [record.long("args", 0)?, record.long("args", 1)?],
        },
        KnownMc::EntryAlloc => Xen::McEntryAlloc(record.number("args")?),
        KnownMc::ExtendArgs => Xen::McExtendArgs {
            op: record.word("op")?,
            bytes: record.number("args")?,
        },
        KnownMc::Flush => Xen::McFlush(McFlush {
            hypercalls: record.word("mcidx")?,
            arg_bytes: record.word("argidx")?,
            callbacks: record.word("cbidx")?,
        }),
        KnownMc::Issue => Xen::McIssue,
        KnownMc::Callback => Xen::McCallback,
        KnownMc::FlushReason => Xen::McFlushReason,
        KnownMc::Batch => Xen::McBatch,
    })
}
