//! The ways to flush a TLB of everything, by what the tables and CR4 allow.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "global-pages",
        summary: "global pages on: a full flush toggles CR4.PGE",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "no-global-pages",
        summary: "global pages off: a full flush writes CR3",
        role: Role::After,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
];
