//! Privileged instructions of a guest's kernel that trap and are carried out by Xen: moves to and from CR3 and CR4.
//! Source: xen/arch/x86/pv/emul-priv-op.c, `read_cr` and `write_cr`; xen/arch/x86/pv/domain.c, `pv_fixup_guest_cr4`;
//! xen/arch/x86/include/asm/pv/domain.h; xen/include/public/arch-x86/xen-x86_64.h, `xen_pfn_to_cr3`, 4.17.
//!
//! Kernels call hypercalls instead wherever there is one, and read CR3 and CR4 from copies of their own: this is what
//! is left for the others. Not here: CR0, CR2, debug registers, ports, MSRs, and what CR4 the CPU really has.

use pagetoll_units::Mfn;

use super::domain::VcpuId;
use super::machine::{Width, Xen};
use super::tolls::Tolls;

/// Bits of CR4 that a guest chooses (`PV_CR4_GUEST_MASK`): TSD, DE, FSGSBASE, OSXSAVE.
const CR4_GUEST: u64 = 1 << 2 | 1 << 3 | 1 << 16 | 1 << 18;
/// Bits that it sees as the machine has them (`PV_CR4_GUEST_VISIBLE_MASK`), all set: PAE, MCE, OSFXSR, OSXMMEXCPT.
const CR4_VISIBLE: u64 = 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10;

/// A privileged instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privileged {
    /// `mov` from CR3.
    ReadCr3,
    /// `mov` to CR3.
    WriteCr3(u64),
    /// `mov` from CR4.
    ReadCr4,
    /// `mov` to CR4.
    WriteCr4(u64),
}

/// A general-protection fault that the guest gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneralProtection;

/// A root as a CR3 of a 64-bit guest.
const fn cr3_of(root: Mfn) -> u64 {
    root.0 << 12
}

const fn root_in(cr3: u64) -> Mfn {
    Mfn(cr3 >> 12)
}

impl Xen {
    /// Carries out a privileged instruction; what it read, or 0, and what it involved.
    ///
    /// # Errors
    /// The guest gets a fault: Xen does not emulate that.
    pub fn privileged(
        &mut self,
        current: VcpuId,
        instruction: Privileged,
    ) -> (Result<u64, GeneralProtection>, Tolls) {
        let before = self.tolls;
        let ended = self.emulate_privileged(current, instruction);
        self.tolls.privileged += 1;
        self.test_events(current);
        (ended, self.tolls - before)
    }

    fn emulate_privileged(
        &mut self,
        current: VcpuId,
        instruction: Privileged,
    ) -> Result<u64, GeneralProtection> {
        match instruction {
            // A 32-bit guest's CR3 names an L3 table, and those are not modelled.
            Privileged::ReadCr3 | Privileged::WriteCr3(_) if self.width == Width::Pae32 => {
                Err(GeneralProtection)
            }
            Privileged::ReadCr3 => Ok(cr3_of(self.vcpus[current.0].guest_table)),
            Privileged::WriteCr3(value) => self
                .new_guest_cr3(current, root_in(value))
                .map(|()| 0)
                .map_err(|_| GeneralProtection),
            Privileged::ReadCr4 => Ok(self.vcpus[current.0].guest_cr4 | CR4_VISIBLE),
            Privileged::WriteCr4(value) => {
                self.vcpus[current.0].guest_cr4 = value & CR4_GUEST;
                Ok(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xen::Layout;

    const CPU: VcpuId = VcpuId(0);

    #[test]
    fn a_root_is_found_again_in_its_cr3() {
        for root in [Mfn(1), Mfn(0x123_4567), Mfn((1 << 40) - 1)] {
            assert_eq!(root_in(cr3_of(root)), root);
        }
    }

    #[test]
    fn cr3_is_the_guests_own_root_and_a_page_that_is_no_root_is_refused() {
        let mut xen = Xen::boot(Layout::default());
        let root = xen.vcpus()[0].guest_table;
        let (read, tolls) = xen.privileged(CPU, Privileged::ReadCr3);
        assert_eq!((read, tolls.privileged), (Ok(cr3_of(root)), 1));
        let (same, tolls) = xen.privileged(CPU, Privileged::WriteCr3(cr3_of(root)));
        assert_eq!((same, tolls.flushes_local), (Ok(0), 1));
        let page = xen.allocate();
        let (refused, _) = xen.privileged(CPU, Privileged::WriteCr3(cr3_of(page)));
        assert_eq!(refused, Err(GeneralProtection));
        assert_eq!(xen.vcpus()[0].guest_table, root);
    }

    #[test]
    fn a_guest_never_sees_global_pages_in_cr4() {
        let mut xen = Xen::boot(Layout::default());
        let (written, _) = xen.privileged(CPU, Privileged::WriteCr4(u64::MAX));
        assert_eq!(written, Ok(0));
        let (read, _) = xen.privileged(CPU, Privileged::ReadCr4);
        assert_eq!(read, Ok(0x5066c));
        assert_eq!(read.unwrap() & 1 << 7, 0);
    }
}
