//! The ways to load TLS descriptors at a context switch.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "always",
        summary: "update_descriptor for all three TLS descriptors, in one multicall",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "if-changed",
        summary: "update_descriptor for the TLS descriptors that differ from those loaded",
        role: Role::After,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
];
