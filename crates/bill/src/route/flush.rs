//! The ways to flush a TLB of everything, by what the tables and CR4 allow.

use super::mechanism::mechanisms;
use super::{Description, OF_XEN_PV, OPERATION};

pub(super) const DESCRIPTION: Description = Description {
    summary: "flush TLBs with and without global pages",
    item: OPERATION,
    examples: "\
Examples:
  pagetoll bill flush
      Flushes under a Xen with and without global pages, counted
  pagetoll bill flush --on sim
      32 vCPUs that queue for flush_lock, modelled
  pagetoll bill flush --on sim --mechanism global-pages --timeline flush.folded
      Who holds the lock and who waits, for a flame graph",
    ..OF_XEN_PV
};

mechanisms! {
    /// A way to flush a TLB of everything. Xen's choice, not the guest's.
    Flush {
        /// global pages on: a full flush toggles CR4.PGE
        GlobalPages = "global-pages" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// global pages off: a full flush writes CR3
        NoGlobalPages = "no-global-pages" { After, single, safe, [XenPvDom0], [Lab, Live, Sim] }
    }
}
