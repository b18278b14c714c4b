//! Printed events to payloads. The texts are those of the tracepoints' `TP_printk`, and of libtraceevent's plugins, which
//! perf and trace-cmd print `kvm_exit` by.

use pagetoll_units::{Bytes, Gfn, Gpa, Hva, MachineAddress, VirtualAddress};

use super::payload::user_address;
use super::record::Record;
use super::words::{Missing, Words};
use super::{
    FastPageFault, Iova, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush, MemoryCall,
    MemoryCallName, Names, PageFault, Payload, SetSpte, SplitHugePage, SpteChanged, SpteRequested,
    TlbFlush, TlbFlushReason, UserspaceExit, Xen, exit_reason,
};

impl Record for Words<'_> {
    /// `vcpu 0, rip 0xffffffff81000000 ..`; older kernels `vcpu 0`; `PC: 0x0000aaaa` on arm64.
    fn kvm_entry(mut self) -> Result<KvmEntry, Missing> {
        let pc = match self.hex_if_there("PC: ")? {
            Some(pc) => Some(pc),
            None => self.hex_if_there("rip ")?,
        };
        let pc = pc.map(VirtualAddress);
        if pc.is_none() && self.raw_if_there("vcpu_id=")?.is_none() {
            self.decimal::<u32>("vcpu ")?;
        }
        Ok(KvmEntry { pc })
    }

    /// `reason EPT_VIOLATION rip 0xfff0 info 184 0`; since 5.10 `vcpu 0` stands before it and `info1 0x.. info2 0x.. intr_info ..`
    /// behind it; newer kernels add `requests`. The plugin prints the first form, whatever the kernel.
    fn kvm_exit(mut self, names: &mut Names) -> Result<KvmExit, Missing> {
        if self.0.contains("_EC: ") {
            return kvm_exit_of_arm64(self, names);
        }
        if self.0.contains("SCAUSE:") {
            return kvm_exit_of_riscv(self, names);
        }
        if self.0.starts_with('[') {
            return kvm_exit_of_loongarch(self, names);
        }
        if let Some(number) = self.raw_if_there("exit_reason=")? {
            return raw_kvm_exit(self, number, names);
        }
        let reason = exit_reason::normal(self.between("reason ", " rip ")?);
        let pc = VirtualAddress(self.hex(" rip ")?);
        let (info1, info2) = match self.hex_if_there(" info1 ")? {
            Some(info1) => (Some(info1), self.hex_if_there(" info2 ")?),
            None => match self.hex_if_there(" info ")? {
                Some(info1) => (Some(info1), self.hex_if_there(" ")?),
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

    /// `vcpu 0 rip 0x.. address 0x0000000000001000 error_code 0x6`; older kernels `address 1000 error_code 6`.
    fn kvm_page_fault(mut self) -> Result<KvmPageFault, Missing> {
        if let Some(address) = self.raw_if_there("fault_address=")? {
            return Ok(KvmPageFault {
                address,
                error_code: self.raw("error_code=")?,
            });
        }
        Ok(KvmPageFault {
            address: self.hex("address ")?,
            error_code: self.hex("error_code ")?,
        })
    }

    /// `ipa 0x80000000, hsr 0x92000047, hxfar 0x.., pc 0x..`; the first is `0` where it is none.
    fn kvm_guest_fault(mut self) -> Result<KvmGuestFault, Missing> {
        Ok(KvmGuestFault {
            ipa: Gpa(self.hex("ipa ")?),
            hsr: self.hex("hsr ")?,
            pc: VirtualAddress(self.hex(" pc ")?),
        })
    }

    /// `reason KVM_EXIT_MMIO (6)`; ftrace prints `reason restart (4)`, `reason error (14)` where an errno was returned.
    fn userspace_exit(mut self, names: &mut Names) -> Result<UserspaceExit, Missing> {
        let reason = self.between("reason ", " (")?;
        let number: i32 = self.decimal(" (")?;
        let errno = matches!(reason, "restart" | "error").then_some(-number);
        Ok(UserspaceExit {
            reason: names.intern(super::userspace_exit::normal(reason)),
            errno,
        })
    }

    /// `gfn 1b9286 spte 1b9286e67 (rwxu) level 1 at 327228508`.
    fn set_spte(mut self) -> Result<SetSpte, Missing> {
        Ok(SetSpte {
            gfn: Gfn(self.hex("gfn ")?),
            spte: self.hex("spte ")?,
            level: self.decimal("level ")?,
        })
    }

    /// `vcpu 0 gva 1000 error_code P|W sptep 0x.. old 0x.. new .. spurious 0 fixed 1`.
    fn fast_page_fault(mut self) -> Result<FastPageFault, Missing> {
        Ok(FastPageFault {
            address: self.hex("gva ")?,
            error_code: error_code(self.between("error_code ", "sptep")?)?,
            old_spte: self.hex(" old ")?,
            new_spte: self.hex(" new ")?,
            spurious: self.decimal::<u32>("spurious ")? != 0,
            fixed: self.decimal::<u32>("fixed ")? != 0,
        })
    }

    /// `gfn 1000 spte 600000001000b77 level 2 errno 0`.
    fn split_huge_page(mut self) -> Result<SplitHugePage, Missing> {
        Ok(SplitHugePage {
            gfn: Gfn(self.hex("gfn ")?),
            spte: self.hex("spte ")?,
            level: self.decimal("level ")?,
            errno: self.decimal("errno ")?,
        })
    }

    /// `as id 0 gfn 1000 level 2 old_spte 0 new_spte 600000001000b77`.
    fn spte_changed(mut self) -> Result<SpteChanged, Missing> {
        Ok(SpteChanged {
            gfn: Gfn(self.hex("gfn ")?),
            level: self.decimal("level ")?,
            old_spte: self.hex("old_spte ")?,
            new_spte: self.hex("new_spte ")?,
        })
    }

    /// `gfn 1000 pfn 1b9286 level 1`.
    fn spte_requested(mut self) -> Result<SpteRequested, Missing> {
        Ok(SpteRequested {
            gfn: Gfn(self.hex("gfn ")?),
            level: self.decimal("level ")?,
        })
    }

    /// `mmu notifier unmap range: 0x007f5b1ec00000 -- 0x007f5b1ee00000`.
    fn unmap_hva_range(mut self) -> Result<Payload, Missing> {
        Ok(Payload::KvmUnmapHvaRange {
            start: Hva(self.hex("range: ")?),
            end: Hva(self.hex("-- ")?),
        })
    }

    /// `ring 0: dirty 0x1 reset 0x0 slot 1 offset 0x1000 (used 1)`.
    fn dirty_ring_push(mut self) -> Result<Payload, Missing> {
        Ok(Payload::KvmDirtyRingPush {
            slot: self.decimal("slot ")?,
            offset: self.hex("offset ")?,
        })
    }

    /// `pages:1 reason:local MM shootdown (3)`, `pages:-1` for all.
    fn tlb_flush(mut self) -> Result<TlbFlush, Missing> {
        let pages: i64 = self.decimal("pages:")?;
        Ok(TlbFlush {
            pages: u64::try_from(pages).ok(),
            reason: TlbFlushReason::from_number(self.decimal("(")?),
        })
    }

    /// `IOMMU: iova=0x.. - 0x.. paddr=0x.. size=4096`; older kernels print no end.
    fn iommu_map(mut self) -> Result<Payload, Missing> {
        Ok(Payload::IommuMap {
            iova: Iova(self.hex("iova=")?),
            paddr: MachineAddress(self.hex("paddr=")?),
            size: Bytes(self.decimal("size=")?),
        })
    }

    /// `IOMMU: iova=0x.. - 0x.. size=4096 unmapped_size=4096`.
    fn iommu_unmap(mut self) -> Result<Payload, Missing> {
        Ok(Payload::IommuUnmap {
            iova: Iova(self.hex("iova=")?),
            size: Bytes(self.decimal(" size=")?),
            unmapped_size: Bytes(self.decimal("unmapped_size=")?),
        })
    }

    /// `address=0x7fc741d45e06 ip=0x7fc741d2d7ad error_code=0x6`; a symbol in the place of a kernel's address.
    fn page_fault(mut self) -> Result<PageFault, Missing> {
        Ok(PageFault {
            address: self.hex_or_symbol("address=")?.and_then(user_address),
            ip: self.hex_or_symbol("ip=")?.and_then(user_address),
            error_code: self.hex("error_code=")?,
        })
    }

    /// `fd: 0x00000004, cmd: 0xc028aa03, arg: 0x7f..`; ftrace prints no `0x`.
    fn ioctl_enter(mut self) -> Result<Payload, Missing> {
        Ok(Payload::IoctlEnter {
            fd: low(self.hex("fd: ")?, "fd: ")?,
            cmd: low(self.hex("cmd: ")?, "cmd: ")?,
            arg: self.hex("arg: ")?,
        })
    }

    /// `0x0`; ftrace prints `-> 0x0`.
    fn ioctl_exit(mut self) -> Result<Payload, Missing> {
        Ok(Payload::IoctlExit {
            ret: self.hex("0x")?.cast_signed(),
        })
    }

    /// `start: 0x7f.., len_in: 0x00001000, behavior: 0x00000004`; ftrace prints no `0x`.
    fn memory_call(mut self, name: MemoryCallName) -> Result<MemoryCall, Missing> {
        Ok(match name {
            MemoryCallName::Madvise => MemoryCall::Madvise {
                start: self.hex("start: ")?,
                length: self.hex("len_in: ")?,
                advice: low(self.hex("behavior: ")?, "behavior: ")?,
            },
            MemoryCallName::Fallocate => MemoryCall::Fallocate {
                mode: low(self.hex("mode: ")?, "mode: ")?,
                length: self.hex("len: ")?,
            },
            MemoryCallName::Mmap => MemoryCall::Mmap {
                start: self.hex("addr: ")?,
                length: self.hex("len: ")?,
                flags: self.hex("flags: ")?,
            },
            MemoryCallName::Munmap => MemoryCall::Munmap {
                start: self.hex("addr: ")?,
                length: self.hex("len: ")?,
            },
            MemoryCallName::ProcessMadvise => MemoryCall::ProcessMadvise {
                advice: low(self.hex("behavior: ")?, "behavior: ")?,
            },
            MemoryCallName::Mremap => MemoryCall::Mremap,
            MemoryCallName::Mprotect => MemoryCall::Mprotect,
            MemoryCallName::Clone => MemoryCall::Clone,
            MemoryCallName::MovePages => MemoryCall::MovePages,
        })
    }

    /// `ncpus 2 mm 0x.. addr 7f0000000000, end 7f0000001000`.
    fn xen_flush_tlb_multi(mut self) -> Result<Xen, Missing> {
        Ok(Xen::FlushTlbMulti {
            cpus: self.decimal("ncpus ")?,
            start: VirtualAddress(self.hex("addr ")?),
            end: VirtualAddress(self.hex("end ")?),
        })
    }

    fn xen_entry(mut self, _: &'static str) -> Result<u64, Missing> {
        self.hex("(raw ")
    }

    fn xen_flush_tlb_one(mut self) -> Result<VirtualAddress, Missing> {
        self.hex("addr ").map(VirtualAddress)
    }

    fn xen_write_cr3(mut self) -> Result<u64, Missing> {
        self.hex("cr3 ")
    }

    /// `op 1(mmu_update) args [ffff.., 2, 0, 7ff0, 0, 0]`.
    fn xen_mc_entry(mut self) -> Result<Xen, Missing> {
        Ok(Xen::McEntry {
            op: self.decimal("op ")?,
            args: [self.hex("args [")?, self.hex(", ")?],
        })
    }

    fn xen_mc_entry_alloc(mut self) -> Result<u64, Missing> {
        self.decimal("alloc entry ")
    }

    fn xen_mc_extend_args(mut self) -> Result<Xen, Missing> {
        Ok(Xen::McExtendArgs {
            op: self.decimal("op ")?,
            bytes: self.decimal(" by ")?,
        })
    }

    /// `flushing 2 hypercalls, 32 arg bytes, 0 callbacks`.
    fn xen_mc_flush(mut self) -> Result<McFlush, Missing> {
        Ok(McFlush {
            hypercalls: self.decimal("flushing ")?,
            arg_bytes: self.decimal(", ")?,
            callbacks: self.decimal(", ")?,
        })
    }
}

/// The lower half of an argument, which is an `int` of C.
fn low(value: u64, key: &'static str) -> Result<u32, Missing> {
    u32::try_from(value & 0xffff_ffff).map_err(|_too_large| Missing(key))
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

/// `SEPC:0xffffffff80001000, SCAUSE:0x15, STVAL:0x1000, HTVAL:0x400, HTINST:0x0`.
fn kvm_exit_of_riscv(mut words: Words<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    let pc = VirtualAddress(words.hex("SEPC:")?);
    Ok(KvmExit {
        reason: names.intern(&exit_reason::of_riscv(words.hex("SCAUSE:")?)),
        pc,
        info1: None,
        info2: None,
    })
}

/// `[IDLE]PC: 0x90000000`, `[0x2]PC: ..`.
fn kvm_exit_of_loongarch(mut words: Words<'_>, names: &mut Names) -> Result<KvmExit, Missing> {
    let reason = words.between("[", "]")?;
    Ok(KvmExit {
        reason: names.intern(&exit_reason::of_loongarch(reason)),
        pc: VirtualAddress(words.hex("PC: ")?),
        info1: None,
        info2: None,
    })
}

/// `exit_reason=48 guest_rip=0xfff0 isa=1 info1=388 info2=0`, as `trace-cmd report -R` has it.
fn raw_kvm_exit(mut words: Words<'_>, reason: u64, names: &mut Names) -> Result<KvmExit, Missing> {
    let pc = VirtualAddress(words.raw("guest_rip=")?);
    let is_vmx = words.raw_if_there("isa=")?.unwrap_or(1) == 1;
    Ok(KvmExit {
        reason: names.intern(&exit_reason::of_number(reason, is_vmx)),
        pc,
        info1: words.raw_if_there("info1=")?,
        info2: words.raw_if_there("info2=")?,
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
