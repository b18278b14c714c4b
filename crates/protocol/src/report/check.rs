//! Reports of checks, and of the log of the kernel that went through them.

use serde::Deserialize;

/// A check was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CheckRun {
    pub name: String,
    /// Pages, or operations on pages, that were tried.
    pub tried: u64,
    /// Pages or operations that came out wrong.
    pub failed: u64,
    /// Time that it took, by the guest's clock.
    pub milliseconds: u64,
    /// Feature that the guest's kernel lacks, where nothing was tried.
    pub lacks: Option<String>,
}

/// Lines of the kernel's log that no healthy kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct KernelLog {
    pub warnings: u64,
    /// The first of them.
    pub first: String,
}
