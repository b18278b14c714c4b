//! The ways to flush a TLB of everything, by what the tables and CR4 allow.

use super::mechanism::mechanisms;

mechanisms! {
    /// A way to flush a TLB of everything. Xen's choice, not the guest's.
    Flush {
        /// global pages on: a full flush toggles CR4.PGE
        GlobalPages = "global-pages" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// global pages off: a full flush writes CR3
        NoGlobalPages = "no-global-pages" { After, single, safe, [XenPvDom0], [Lab, Live, Sim] }
    }
}
