//! Cost tables: what each toll costs on one machine, each figure with its spread and its source.
//!
//! A table is a TOML file (`costs/*.toml`); `docs/cost-tables.md` describes it. The keys that a figure can have stand in
//! [`CostKey`]. Nothing here knows what a figure is multiplied with: that is the simulator's to say.

mod derived;
mod error;
mod key;
mod parse;
mod prices;
pub mod published;
mod topology;

use std::collections::BTreeMap;

use pagetoll_bill::Unit;
use serde::{Deserialize, Serialize};

pub use derived::Derived;
pub use error::CostError;
pub use key::{CostKey, Dimension};
pub use prices::Prices;
pub use topology::{Nearness, Position, Topology};

/// Provenance of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Measured; the source says how, where and when.
    Measured,
    /// PublishedFigure by others; the source says where.
    Cited,
    /// Chosen so that a model meets a published figure, which is then no prediction of it.
    Fitted,
    /// Believed; the source says why.
    Assumed,
}

/// One figure of a table, in the table's unit unless its key says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The value that is most likely.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Provenance.
    pub kind: Kind,
    /// The published results that it was fitted to, by their ids; empty for every other kind.
    pub fitted_to: Vec<String>,
    /// Source.
    pub source: String,
    /// The line of the file that it stands in, from 1.
    pub line: usize,
}

/// Costs of operations on one machine: figures by key, with their spread and source.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    /// Name, such as `lab-xen-4.17`.
    pub name: String,
    /// The machine, in one line.
    pub summary: String,
    /// Unit of costs.
    pub unit: Unit,
    /// Versions of what the figures were counted on, by component: `xen`, `linux`, `qemu`; empty where that is not known.
    pub stack: BTreeMap<String, String>,
    /// Topology of the machine, if a route needs it.
    pub topology: Option<Topology>,
    /// Name in messages: a path, or the name of a table that comes with pagetoll.
    pub file: String,
    /// Lines of the file.
    lines: usize,
    figures: BTreeMap<CostKey, Figure>,
}

impl CostTable {
    /// Reads a table. `file` is what it is called in messages.
    ///
    /// # Errors
    /// No TOML, or a figure that is unknown, incomplete or senseless: with its line and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Self, CostError> {
        parse::table(file, text)
    }

    /// The figure for a key.
    ///
    /// # Errors
    /// [`CostError::Lacks`]: the table does not have it.
    pub fn figure(&self, key: CostKey) -> Result<&Figure, CostError> {
        self.figures.get(&key).ok_or_else(|| self.lacks(key))
    }

    fn lacks(&self, key: CostKey) -> CostError {
        CostError::Lacks {
            file: self.file.clone(),
            line: self.lines,
            key: key.name(),
            expected: key.summary(),
        }
    }

    /// Sockets, L3 groups, cores and threads of the machine.
    ///
    /// # Errors
    /// [`CostError::LacksTopology`]: the table does not have it.
    pub fn topology(&self) -> Result<Topology, CostError> {
        self.topology.ok_or_else(|| CostError::LacksTopology {
            file: self.file.clone(),
            line: self.lines,
        })
    }

    /// All figures, by key.
    pub fn figures(&self) -> impl Iterator<Item = (CostKey, &Figure)> {
        self.figures.iter().map(|(&key, figure)| (key, figure))
    }

    /// True if any figure was fitted to this published result.
    #[must_use]
    pub fn is_fitted_to(&self, published: &str) -> bool {
        let is_fitted = |figure: &Figure| figure.fitted_to.iter().any(|id| id == published);
        self.figures.values().any(is_fitted)
    }
}
