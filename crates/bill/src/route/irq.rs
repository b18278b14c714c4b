//! The ways to have Xen deliver events after they were unmasked.

use super::mechanism::mechanisms;
use super::{Description, Item, OF_XEN_PV};

pub(super) const DESCRIPTION: Description = Description {
    summary: "unmask event channels in a Xen PV guest",
    item: Item {
        one: "unmask",
        many: "unmasks",
    },
    examples: "\
Examples:
  pagetoll bill irq
      Unmasking while no event is pending, and while one is",
    ..OF_XEN_PV
};

mechanisms! {
    /// A way to have Xen deliver events after they were unmasked. Kernels since 3.4 do what `if-pending` does.
    Irq {
        /// the xen_version hypercall, whose exit delivers events, whether any is pending or not
        Always = "always" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// the hypercall only when an event is pending
        IfPending = "if-pending" { After, single, safe, [XenPvDom0], [Lab, Live, Sim] }
    }
}
