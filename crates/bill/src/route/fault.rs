//! The ways to set a page-table entry.

use super::mechanism::mechanisms;
use super::{Description, OF_XEN_PV};

pub(super) const DESCRIPTION: Description = Description {
    summary: "set a page-table entry on a page fault of a Xen PV guest",
    examples: "\
Examples:
  pagetoll bill fault
      64-bit and 32-bit guests; builds a Xen with CONFIG_PV32 once
  pagetoll bill fault --mechanism emulate,hypercall
      64-bit guests only",
    ..OF_XEN_PV
};

mechanisms! {
    /// A way to set a page-table entry.
    Fault {
        /// native store to the read-only page table; Xen traps and emulates it (ptwr)
        Emulate = "emulate" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// 32-bit: a store to each half of the entry; two emulated instructions
        Emulate2x32 = "emulate-2x32" { Before, single, safe, [XenPv32Dom0], [Lab, Sim] }
        /// one mmu_update hypercall
        Hypercall = "hypercall" { After, single, safe, [XenPvDom0, XenPv32Dom0], [Lab, Live, Sim] }
    }
}
