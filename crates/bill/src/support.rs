//! What a backend can do, said before it is asked.

use serde::{Deserialize, Serialize};

/// Whether a backend can bill a route here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, and why.
    No(String),
}
