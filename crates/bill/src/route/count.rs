//! The way to count a program of the user's own.

use super::mechanism::mechanisms;

mechanisms! {
    /// A way to count a program of the user's own.
    Count {
        /// the program as given, natively and as a PV dom0
        Program = "program" { Observed, single, safe, [Native, XenPvDom0], [Lab] }
    }
}
