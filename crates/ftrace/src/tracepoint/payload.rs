//! The tracepoints that the routes need, and their fields.
//!
//! Fields that one of the forms lacks are not here: `perf script` prints `kvm_exit` without vCPU and error code (its plugin
//! `plugin_kvm`), so both forms give the reason, the address and the two words of information.

use pagetoll_units::{Bytes, Gfn, Gpa, Hva, MachineAddress, VirtualAddress};

use super::{Edge, HostWork, MemoryCall, Name, Xen};

/// A device's address, as the IOMMU translates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iova(pub u64);

/// Content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// `kvm:kvm_entry`.
    KvmEntry(KvmEntry),
    /// `kvm:kvm_exit`.
    KvmExit(KvmExit),
    /// `kvm:kvm_page_fault`, x86.
    KvmPageFault(KvmPageFault),
    /// `kvm:kvm_guest_fault`, arm64.
    KvmGuestFault(KvmGuestFault),
    /// `kvm:kvm_userspace_exit`.
    KvmUserspaceExit(UserspaceExit),
    /// `kvmmmu:kvm_mmu_set_spte`.
    SetSpte(SetSpte),
    /// `kvmmmu:fast_page_fault`.
    FastPageFault(FastPageFault),
    /// `kvmmmu:kvm_mmu_split_huge_page`.
    SplitHugePage(SplitHugePage),
    /// `kvmmmu:kvm_tdp_mmu_spte_changed`.
    SpteChanged(SpteChanged),
    /// `kvmmmu:kvm_mmu_spte_requested`.
    SpteRequested(SpteRequested),
    /// `kvmmmu:kvm_mmu_zap_all_fast`: KVM dropped every entry of a VM, as where a memslot goes.
    ZapAllFast,
    /// `kvm:kvm_unmap_hva_range`: from the first address to behind the last.
    KvmUnmapHvaRange {
        /// The first.
        start: Hva,
        /// Behind the last.
        end: Hva,
    },
    /// `kvm:kvm_dirty_ring_push`.
    KvmDirtyRingPush {
        /// Address space in the upper half, memslot in the lower.
        slot: u32,
        /// Offset of the page in the memslot.
        offset: u64,
    },
    /// `tlb:tlb_flush`.
    TlbFlush(TlbFlush),
    /// `iommu:map`.
    IommuMap {
        /// Address for the device.
        iova: Iova,
        /// Address of the memory.
        paddr: MachineAddress,
        /// One call of `iommu_map`.
        size: Bytes,
    },
    /// `iommu:unmap`.
    IommuUnmap {
        /// Address for the device.
        iova: Iova,
        /// Size that was asked for.
        size: Bytes,
        /// Size that was mapped there.
        unmapped_size: Bytes,
    },
    /// `exceptions:page_fault_user`.
    PageFaultUser(PageFault),
    /// `exceptions:page_fault_kernel`.
    PageFaultKernel(PageFault),
    /// `syscalls:sys_enter_ioctl`.
    IoctlEnter {
        /// File descriptor.
        fd: u32,
        /// Such as 0xc028aa03, `UFFDIO_COPY`.
        cmd: u32,
        /// Mostly a pointer.
        arg: u64,
    },
    /// `syscalls:sys_exit_ioctl`.
    IoctlExit {
        /// Negative: an errno.
        ret: i64,
    },
    /// `syscalls:sys_enter_madvise` and others that change memory.
    MemoryCall(MemoryCall),
    /// Return of a [`MemoryCall`].
    MemoryCallExit,
    /// Begin or end of the kernel's own work on memory.
    HostWork(HostWork, Edge),
    /// `xen:...`.
    Xen(Xen),
}

/// A vCPU enters its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvmEntry {
    /// Address at which the guest goes on; older kernels of x86 do not say.
    pub pc: Option<VirtualAddress>,
}

/// A vCPU leaves its guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvmExit {
    /// In the kernel's spelling: `EPT_VIOLATION` (VMX), `npf` (SVM), `DABT_LOW` or `IRQ` (arm64). A number, `0x4b`, where
    /// no table has it. VMX's `FAILED_VMENTRY` is left out.
    pub reason: Name,
    /// The guest's instruction.
    pub pc: VirtualAddress,
    /// VMX: exit qualification; SVM: `exit_info_1`. Neither arm64 nor the oldest kernels of x86 have it.
    pub info1: Option<u64>,
    /// VMX: IDT vectoring information; SVM: `exit_info_2`, of an `npf` the address.
    pub info2: Option<u64>,
}

/// A guest touched what is not mapped, or not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvmPageFault {
    /// A guest physical address with nested paging, else the guest's virtual one.
    pub address: u64,
    /// `PFERR_*`; with EPT made from the exit qualification.
    pub error_code: u64,
}

/// A stage 2 abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvmGuestFault {
    /// Intermediate physical address.
    pub ipa: Gpa,
    /// `ESR_EL2`.
    pub hsr: u64,
    /// The guest's instruction.
    pub pc: VirtualAddress,
}

/// `KVM_RUN` returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserspaceExit {
    /// `exit_reason` of `struct kvm_run`: `KVM_EXIT_MMIO`. After an interruption it is that of the exit before; with
    /// `EFAULT` it may be `KVM_EXIT_MEMORY_FAULT`. ftrace prints `restart` for `EINTR`, and `error` for any other errno, in
    /// its place.
    pub reason: Name,
    /// Return value of `KVM_RUN`: 0, or a negative errno. `None` in `perf script`'s text, which has the reason alone
    /// (libtraceevent compares `errno` without its sign): there, interruptions cannot be told from exits.
    pub errno: Option<i32>,
}

/// KVM made an entry for a guest's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSpte {
    /// The first frame of the page.
    pub gfn: Gfn,
    /// 1 for 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    pub level: u32,
    /// The entry.
    pub spte: u64,
}

/// KVM is about to make an entry because of a fault; those that it makes ahead are not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpteRequested {
    /// The frame that was touched, or the first of its huge page.
    pub gfn: Gfn,
    /// 1 for 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    pub level: u32,
}

/// KVM fixed a fault without its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPageFault {
    /// A guest physical address with nested paging, else the guest's virtual one.
    pub address: u64,
    /// `PFERR_*`, as far as the kernel names them.
    pub error_code: u64,
    /// The entry before.
    pub old_spte: u64,
    /// The entry after.
    pub new_spte: u64,
    /// Another CPU had fixed it.
    pub spurious: bool,
    /// It was fixed here.
    pub fixed: bool,
}

/// A huge page was split, as dirty logging wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitHugePage {
    /// The first frame.
    pub gfn: Gfn,
    /// The level before.
    pub level: u32,
    /// The huge entry.
    pub spte: u64,
    /// 0, or a negative errno.
    pub errno: i32,
}

/// An entry of the TDP MMU changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpteChanged {
    /// The first frame of the page.
    pub gfn: Gfn,
    /// 1 for 4 KiB, 2 for 2 MiB, 3 for 1 GiB.
    pub level: u32,
    /// The entry before.
    pub old_spte: u64,
    /// The entry after.
    pub new_spte: u64,
}

/// A TLB was flushed, or another CPU was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbFlush {
    /// `None` for all, -1 in the trace (`TLB_FLUSH_ALL`).
    pub pages: Option<u64>,
    /// Reason.
    pub reason: TlbFlushReason,
}

/// `enum tlb_flush_reason` of `include/linux/mm_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlbFlushReason {
    /// A switch of address spaces.
    OnTaskSwitch,
    /// Another CPU asked.
    RemoteShootdown,
    /// This CPU flushed for itself.
    LocalShootdown,
    /// This CPU flushed an address space.
    LocalMmShootdown,
    /// This CPU asked others.
    RemoteSendIpi,
    /// Another CPU asked, which runs something else by now.
    RemoteWrongCpu,
    /// A number without a name in Linux 6.18.
    Other(u32),
}

impl TlbFlushReason {
    pub(super) const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::OnTaskSwitch,
            1 => Self::RemoteShootdown,
            2 => Self::LocalShootdown,
            3 => Self::LocalMmShootdown,
            4 => Self::RemoteSendIpi,
            5 => Self::RemoteWrongCpu,
            other => Self::Other(other),
        }
    }
}

/// A page fault of Linux's own. Addresses of the kernel are left out: texts have a symbol in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Address that was touched, where it is one of user space.
    pub address: Option<VirtualAddress>,
    /// The instruction, where it is one of user space.
    pub ip: Option<VirtualAddress>,
    /// `X86_PF_*`: 1 protection, 2 write, 4 user, 16 instruction.
    pub error_code: u64,
}

/// An address of user space: on x86-64 and arm64 the upper half is the kernel's.
pub(super) fn user_address(address: u64) -> Option<VirtualAddress> {
    (address >> 63 == 0).then_some(VirtualAddress(address))
}
