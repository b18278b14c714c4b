//! What the boots of an order reported, gathered. Plain data.

use std::collections::BTreeMap;

use pagetoll_traces::xentrace::Crossings;

use crate::guest::report::{
    Clear, Foreign, ForeignReleased, ForeignUnavailable, Race, Repeat, User,
};
use crate::vm::counter::Flushes;
use crate::vm::machine::XenOptions;

/// What one counting boot found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Options of its Xen.
    pub(crate) xen: XenOptions,
    pub(crate) clears: Vec<Clear>,
    pub(crate) repeats: Vec<Repeat>,
    pub(crate) users: Vec<User>,
    pub(crate) foreign: Vec<Foreign>,
    pub(crate) released: Option<ForeignReleased>,
    pub(crate) no_foreign: Option<ForeignUnavailable>,
    /// What Xen counted between the marks of each traced step.
    pub(crate) crossings: BTreeMap<u16, Crossings>,
    /// What QEMU counted between the marks of each step; nothing where it did not.
    pub(crate) flushes: BTreeMap<u16, Flushes>,
}

/// What all boots found, one entry a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) dom0: Vec<Counted>,
    pub(crate) native: Vec<Counted>,
    pub(crate) races: Vec<Race>,
    /// Why the probe did nothing.
    pub(crate) no_probe: Option<String>,
    /// What a 32-bit dom0 found.
    pub(crate) pv32: Vec<Counted>,
    /// Why there was none.
    pub(crate) no_pv32: Option<String>,
}
