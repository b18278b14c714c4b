//! The ways to let Xen deliver events after they were enabled again.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "always",
        summary: "the xen_version hypercall, whose exit delivers events, whether any is pending or not",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "if-pending",
        summary: "the hypercall only when an event is pending",
        role: Role::After,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
];
