//! Binary records to payloads, by the names of their fields.

use pagetoll_units::{Bytes, Gfn, Gpa, Hva, MachineAddress, VirtualAddress};

use super::payload::user_address;
use super::record::Record;
use super::words::Missing;
use super::{
    FastPageFault, Format, Iova, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush,
    MemoryCall, MemoryCallName, Name, Names, PageFault, Payload, SetSpte, SplitHugePage,
    SpteChanged, SpteRequested, TlbFlush, TlbFlushReason, UserspaceExit, Xen, exit_reason,
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

impl Record for RawRecord<'_> {
    fn kvm_entry(self) -> Result<KvmEntry, Missing> {
        let pc = match self.number_if_there("vcpu_pc")? {
            Some(pc) => Some(pc),
            None => match self.number_if_there("rip")? {
                Some(rip) => Some(rip),
                None => self.number_if_there("pc")?,
            },
        };
        Ok(KvmEntry {
            pc: pc.map(VirtualAddress),
        })
    }

    fn kvm_exit(self, names: &mut Names) -> Result<KvmExit, Missing> {
        if self.format.field("esr_ec").is_some() {
            return kvm_exit_of_arm64(self, names);
        }
        if self.format.field("scause").is_some() {
            let reason = exit_reason::of_riscv(self.number("scause")?);
            return Ok(KvmExit {
                reason: names.intern(&reason),
                pc: self.address("sepc")?,
                info1: None,
                info2: None,
            });
        }
        let reason = self.word("exit_reason")?;
        let vmx = self.number_if_there("isa")?.unwrap_or(KVM_ISA_VMX) == KVM_ISA_VMX;
        // The print format has VMX's table, then SVM's. The upper half of VMX's reason is flags.
        let reason = match vmx {
            true => self.symbol(0, reason & 0xffff, names),
            false => self.symbol(1, reason, names),
        };
        Ok(KvmExit {
            reason,
            pc: self.address("guest_rip")?,
            info1: self.number_if_there("info1")?,
            info2: self.number_if_there("info2")?,
        })
    }

    fn kvm_page_fault(self) -> Result<KvmPageFault, Missing> {
        Ok(KvmPageFault {
            address: self.number("fault_address")?,
            error_code: self.number("error_code")?,
        })
    }

    fn kvm_guest_fault(self) -> Result<KvmGuestFault, Missing> {
        Ok(KvmGuestFault {
            ipa: Gpa(self.number("ipa")?),
            hsr: self.number("hsr")?,
            pc: self.address("vcpu_pc")?,
        })
    }

    fn userspace_exit(self, names: &mut Names) -> Result<UserspaceExit, Missing> {
        let reason = self.symbol(0, self.word("reason")?, names);
        Ok(UserspaceExit {
            reason: names.intern(super::userspace_exit::normal(&reason)),
            errno: Some(self.word("errno")?.cast_signed()),
        })
    }

    fn set_spte(self) -> Result<SetSpte, Missing> {
        Ok(SetSpte {
            gfn: Gfn(self.number("gfn")?),
            spte: self.number("spte")?,
            level: self.word("level")?,
        })
    }

    fn fast_page_fault(self) -> Result<FastPageFault, Missing> {
        let (old_spte, new_spte) = (self.number("old_spte")?, self.number("new_spte")?);
        let (spurious, fixed) = match self.number_if_there("ret")? {
            Some(ret) => outcome(&self.format.print, ret),
            None => outcome_before_5_10(self.number("retry")? != 0, old_spte, new_spte),
        };
        Ok(FastPageFault {
            address: self.number("cr2_or_gpa")?,
            error_code: self.number("error_code")? & PFERR_NAMED,
            old_spte,
            new_spte,
            spurious,
            fixed,
        })
    }

    fn split_huge_page(self) -> Result<SplitHugePage, Missing> {
        Ok(SplitHugePage {
            gfn: Gfn(self.number("gfn")?),
            spte: self.number("spte")?,
            level: self.word("level")?,
            errno: self.word("errno")?.cast_signed(),
        })
    }

    fn spte_changed(self) -> Result<SpteChanged, Missing> {
        Ok(SpteChanged {
            gfn: Gfn(self.number("gfn")?),
            level: self.word("level")?,
            old_spte: self.number("old_spte")?,
            new_spte: self.number("new_spte")?,
        })
    }

    fn spte_requested(self) -> Result<SpteRequested, Missing> {
        Ok(SpteRequested {
            gfn: Gfn(self.number("gfn")?),
            level: self.word("level")?,
        })
    }

    fn unmap_hva_range(self) -> Result<Payload, Missing> {
        Ok(Payload::KvmUnmapHvaRange {
            start: Hva(self.number("start")?),
            end: Hva(self.number("end")?),
        })
    }

    fn dirty_ring_push(self) -> Result<Payload, Missing> {
        Ok(Payload::KvmDirtyRingPush {
            slot: self.word("slot")?,
            offset: self.number("offset")?,
        })
    }

    fn tlb_flush(self) -> Result<TlbFlush, Missing> {
        let pages = self.number("pages")?.cast_signed();
        Ok(TlbFlush {
            pages: u64::try_from(pages).ok(),
            reason: TlbFlushReason::from_number(self.word("reason")?),
        })
    }

    fn iommu_map(self) -> Result<Payload, Missing> {
        Ok(Payload::IommuMap {
            iova: Iova(self.number("iova")?),
            paddr: MachineAddress(self.number("paddr")?),
            size: Bytes(self.number("size")?),
        })
    }

    fn iommu_unmap(self) -> Result<Payload, Missing> {
        Ok(Payload::IommuUnmap {
            iova: Iova(self.number("iova")?),
            size: Bytes(self.number("size")?),
            unmapped_size: Bytes(self.number("unmapped_size")?),
        })
    }

    fn page_fault(self) -> Result<PageFault, Missing> {
        Ok(PageFault {
            address: user_address(self.number("address")?),
            ip: user_address(self.number("ip")?),
            error_code: self.number("error_code")?,
        })
    }

    fn ioctl_enter(self) -> Result<Payload, Missing> {
        Ok(Payload::IoctlEnter {
            fd: self.word("fd")?,
            cmd: self.word("cmd")?,
            arg: self.number("arg")?,
        })
    }

    fn ioctl_exit(self) -> Result<Payload, Missing> {
        Ok(Payload::IoctlExit {
            ret: self.number("ret")?.cast_signed(),
        })
    }

    fn memory_call(self, name: MemoryCallName) -> Result<MemoryCall, Missing> {
        Ok(match name {
            MemoryCallName::Madvise => MemoryCall::Madvise {
                start: self.number("start")?,
                length: self.number("len_in")?,
                advice: self.word("behavior")?,
            },
            MemoryCallName::Fallocate => MemoryCall::Fallocate {
                mode: self.word("mode")?,
                length: self.number("len")?,
            },
            MemoryCallName::Mmap => MemoryCall::Mmap {
                start: self.number("addr")?,
                length: self.number("len")?,
                flags: self.number("flags")?,
            },
            MemoryCallName::Munmap => MemoryCall::Munmap {
                start: self.number("addr")?,
                length: self.number("len")?,
            },
            MemoryCallName::ProcessMadvise => MemoryCall::ProcessMadvise {
                advice: self.word("behavior")?,
            },
            MemoryCallName::Mremap => MemoryCall::Mremap,
            MemoryCallName::Mprotect => MemoryCall::Mprotect,
            MemoryCallName::Clone => MemoryCall::Clone,
            MemoryCallName::MovePages => MemoryCall::MovePages,
        })
    }

    fn xen_flush_tlb_multi(self) -> Result<Xen, Missing> {
        Ok(Xen::FlushTlbMulti {
            cpus: self.word("ncpus")?,
            start: self.address("addr")?,
            end: self.address("end")?,
        })
    }

    fn xen_entry(self, field: &'static str) -> Result<u64, Missing> {
        self.number(field)
    }

    fn xen_flush_tlb_one(self) -> Result<VirtualAddress, Missing> {
        self.address("addr")
    }

    fn xen_write_cr3(self) -> Result<u64, Missing> {
        self.number("cr3")
    }

    fn xen_mc_entry(self) -> Result<Xen, Missing> {
        Ok(Xen::McEntry {
            op: self.word("op")?,
            args: [self.long("args", 0)?, self.long("args", 1)?],
        })
    }

    fn xen_mc_entry_alloc(self) -> Result<u64, Missing> {
        self.number("args")
    }

    fn xen_mc_extend_args(self) -> Result<Xen, Missing> {
        Ok(Xen::McExtendArgs {
            op: self.word("op")?,
            bytes: self.number("args")?,
        })
    }

    fn xen_mc_flush(self) -> Result<McFlush, Missing> {
        Ok(McFlush {
            hypercalls: self.word("mcidx")?,
            arg_bytes: self.word("argidx")?,
            callbacks: self.word("cbidx")?,
        })
    }
}

/// `KVM_ISA_VMX`; SVM is 2.
const KVM_ISA_VMX: u64 = 1;

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
