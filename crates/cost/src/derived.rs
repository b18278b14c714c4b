//! A figure on its way into a table.

use crate::{CostKey, Kind};

/// A figure that was derived from counts or measurements, in the unit of its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The figure's place in a table.
    pub key: CostKey,
    /// The value that is most likely.
    pub value: f64,
    /// Lower bound; 10 % of the samples of a measured figure were below.
    pub low: f64,
    /// Upper bound; 10 % of the samples of a measured figure were above.
    pub high: f64,
    /// Measured, or assumed to be like one that was.
    pub kind: Kind,
    /// Derivation, in words.
    pub source: String,
}
