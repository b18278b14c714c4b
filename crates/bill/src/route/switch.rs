//! The ways to load TLS descriptors at a context switch.

use super::mechanism::mechanisms;

mechanisms! {
    /// A way to load TLS descriptors at a context switch. Kernels since 3.6 do what `if-changed` does.
    Switch {
        /// update_descriptor for all three TLS descriptors, in one multicall
        Always = "always" { Before, single, safe, [XenPvDom0], [Lab, Live, Sim] }
        /// update_descriptor for the TLS descriptors that differ from those loaded
        IfChanged = "if-changed" { After, single, safe, [XenPvDom0], [Lab, Live, Sim] }
    }
}
