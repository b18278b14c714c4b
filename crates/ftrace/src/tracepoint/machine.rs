//! The machine that a trace was recorded on.

/// A machine, as far as a trace describes it; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: Option<String>,
    /// `uname -m`.
    pub arch: Option<String>,
}
