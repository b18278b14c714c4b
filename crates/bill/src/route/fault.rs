//! The ways to set a page-table entry on a page fault.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "emulate",
        summary: "native store to the read-only page table; Xen traps and emulates it (ptwr)",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "emulate-2x32",
        summary: "32-bit: a store to each half of the entry; two emulated instructions",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "hypercall",
        summary: "one mmu_update hypercall",
        role: Role::After,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
];

/// What only 32-bit guests have, and what they have too.
pub(super) const OF_32_BITS: (&[&str], &[&str]) = (&["emulate-2x32"], &["hypercall"]);
