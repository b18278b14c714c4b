//! Flushes of the TLB. Source: Linux 6.1, arch/x86/mm/tlb.c, `flush_tlb_mm_range` and `flush_tlb_func`;
//! arch/x86/xen/mmu_pv.c, `xen_flush_tlb`, `xen_flush_tlb_one_user`, `xen_flush_tlb_all`.
//!
//! For a process that runs on this vCPU alone.

use super::address_space::AddressSpace;
use super::kernel::Kernel;
use crate::Error;
use crate::xen::{Argument, Command, MmuExtOp};

/// Pages beyond which everything is flushed (`tlb_single_page_flush_ceiling`).
const SINGLE_PAGE_CEILING: u64 = 33;

impl Kernel {
    /// Flushes all translations of every vCPU.
    pub(super) fn flush_tlb_all(&mut self) -> Result<(), Error> {
        self.flush_op(Command::TlbFlushAll, 0)
    }

    /// The pages of a range, or everything if there are many.
    pub(super) fn flush_tlb_range(&mut self, space: AddressSpace) -> Result<(), Error> {
        if space.pages > SINGLE_PAGE_CEILING {
            return self.flush_op(Command::TlbFlushLocal, 0);
        }
        for page in 0..space.pages {
            self.flush_op(Command::InvlpgLocal, space.start.0 + (page << 12))?;
        }
        Ok(())
    }

    fn flush_op(&mut self, command: Command, first: u64) -> Result<(), Error> {
        self.queue_mmuext_op(MmuExtOp {
            command,
            first,
            second: Argument::Number(0),
        })?;
        self.mc_flush()
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_units::VirtualAddress;

    use super::*;
    use crate::xen::Layout;

    #[test]
    fn few_pages_are_flushed_one_by_one_and_many_at_once() {
        for (pages, calls, single) in [(1, 1, 1), (33, 33, 33), (34, 1, 0), (4096, 1, 0)] {
            let mut kernel = Kernel::boot(Layout::default()).unwrap();
            let before = kernel.tolls();
            let start = VirtualAddress(0x20_0000);
            let space = AddressSpace { start, pages };
            kernel.flush_tlb_range(space).unwrap();
            let tolls = kernel.tolls() - before;
            assert_eq!((tolls.mmuext_op, tolls.invlpg_local), (calls, single));
            assert_eq!(tolls.flushes_local, u64::from(single == 0));
        }
    }
}
