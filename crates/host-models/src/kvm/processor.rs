//! Differences of KVM between processors: `arch/x86/kvm` and `arch/arm64/kvm`.

use pagetoll_units::Gfn;

use crate::Errno;

/// The processor that KVM was built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// x86-64.
    #[default]
    X86_64,
    /// arm64.
    Arm64,
}

impl Processor {
    /// `KVM_USER_MEM_SLOTS`: `SHRT_MAX` less `KVM_INTERNAL_MEM_SLOTS`, of which x86 has three.
    pub(super) const fn user_mem_slots(self) -> u32 {
        match self {
            Self::X86_64 => 32767 - 3,
            Self::Arm64 => 32767,
        }
    }

    /// Refuses frames that no guest can have. x86: `kvm_mmu_max_gfn`, 52 bits of guest physical address, the most that
    /// there are; hardware may have fewer. arm64: `kvm_arch_prepare_memory_region`, 40 bits, `KVM_PHYS_SHIFT`.
    pub(super) const fn check_frames(self, base: Gfn, npages: u64) -> Result<(), Errno> {
        let (bits, errno) = match self {
            Self::X86_64 => (52, Errno::Inval),
            Self::Arm64 => (40, Errno::Fault),
        };
        match base.0 + npages > 1 << (bits - 12) {
            true => Err(errno),
            false => Ok(()),
        }
    }

    /// Returns whether a read fault maps a page that could be written to as writable while writes are logged:
    /// `user_mem_abort` of arm64 does so for writes alone.
    pub(super) const fn logs_reads(self) -> bool {
        matches!(self, Self::X86_64)
    }
}
