//! The ways to get and clear page-table entries.

use super::mechanism::mechanisms;
use super::{Description, OF_XEN_PV};

pub(super) const DESCRIPTION: Description = Description {
    summary: "get and clear page-table entries of a Xen PV guest",
    examples: "\
Examples:
  pagetoll bill unmap
      Every mechanism at batches of 1, 8, 32, 128 and 512 pages, in exact instruction counts
  pagetoll bill unmap --mechanism emulate,preserve-ad --batch 32
      Only the trapped exchange and the fix, 32 pages at a time
  pagetoll bill unmap --output bill.json
      Save the bill; `pagetoll report bill.json` prints it again, in any format
  pagetoll bill unmap --kernel arch/x86/boot/bzImage --headers . --xen xen/xen.gz
      On a kernel and a Xen of your own
  pagetoll bill unmap --kernel fix:none --kernel fix:xen-pv-get-and-clear
      The same kernel without and with a fix, side by side",
    ..OF_XEN_PV
};

mechanisms! {
    /// A way to get and clear page-table entries.
    Unmap {
        /// native xchg on the read-only page table; Xen traps and emulates it (ptwr)
        Emulate = "emulate" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// read, then the set_pte PV operation: one mmu_update hypercall each
        SetPte = "set-pte" { Alternative, single, control, [XenPvDom0], [Lab, Live, Sim] }
        /// read, then one update_va_mapping hypercall each
        UpdateVa = "update-va" { Alternative, single, control, [XenPvDom0], [Lab, Live, Sim] }
        /// read, then set_pte in lazy MMU mode: the kernel gathers multicalls
        Lazy = "lazy" { Alternative, batched, control, [XenPvDom0], [Lab, Live, Sim] }
        /// read, then one mmu_update array of MMU_NORMAL_PT_UPDATE
        MmuUpdate = "mmu-update" { Alternative, batched, control, [XenPvDom0], [Lab, Live, Sim] }
        /// read, one mmu_update array of MMU_PT_UPDATE_PRESERVE_AD with 0, then read A and D back
        PreserveAd = "preserve-ad" { After, batched, safe, [XenPvDom0, XenPv32Dom0], [Lab, Live, Sim] }
        /// what if: a hypercall that exchanges an array of entries and returns the old ones
        Xchg = "xchg" { Alternative, batched, safe, [XenPvDom0], [Sim] }
        /// 32-bit: xchg of the lower half, a store to the upper; two emulated instructions
        XchgAndStore = "xchg-and-store" { Before, single, safe, [XenPv32Dom0], [Lab, Sim] }
        /// 32-bit: one cmpxchg8b of the whole entry; one emulated instruction
        Cmpxchg8b = "cmpxchg8b" { Alternative, single, safe, [XenPv32Dom0], [Lab, Sim] }
    }
}
