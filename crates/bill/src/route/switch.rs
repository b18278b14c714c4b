//! The ways to load TLS descriptors at a context switch.

use super::mechanism::mechanisms;
use super::{Description, Item, OF_XEN_PV};

pub(super) const DESCRIPTION: Description = Description {
    summary: "update TLS descriptors at a context switch of a Xen PV guest",
    item: Item {
        one: "switch",
        many: "switches",
    },
    examples: "\
Examples:
  pagetoll bill switch
      Tasks that differ in none, one and all three of their TLS descriptors",
    ..OF_XEN_PV
};

mechanisms! {
    /// A way to load TLS descriptors at a context switch. Kernels since 3.6 do what `if-changed` does.
    Switch {
        /// update_descriptor for all three TLS descriptors, in one multicall
        Always = "always" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// update_descriptor for the TLS descriptors that differ from those loaded
        IfChanged = "if-changed" { After, single, safe, [XenPvDom0], [Lab, Live, Sim] }
    }
}
