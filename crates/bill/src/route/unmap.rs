//! The ways to get and clear page-table entries.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "emulate",
        summary: "native xchg on the read-only page table; Xen traps and emulates it (ptwr)",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "set-pte",
        summary: "read, then the set_pte PV operation: one mmu_update hypercall each",
        role: Role::Alternative,
        batched: false,
        smp_safe: false,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "update-va",
        summary: "read, then one update_va_mapping hypercall each",
        role: Role::Alternative,
        batched: false,
        smp_safe: false,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "lazy",
        summary: "read, then set_pte in lazy MMU mode: the kernel gathers multicalls",
        role: Role::Alternative,
        batched: true,
        smp_safe: false,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "mmu-update",
        summary: "read, then one mmu_update array of MMU_NORMAL_PT_UPDATE",
        role: Role::Alternative,
        batched: true,
        smp_safe: false,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "preserve-ad",
        summary: "read, one mmu_update array of MMU_PT_UPDATE_PRESERVE_AD with 0, then read A and D back",
        role: Role::After,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "xchg",
        summary: "what if: a hypercall that exchanges an array of entries and returns the old ones",
        role: Role::Alternative,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Sim],
    },
    Mechanism {
        name: "xchg-and-store",
        summary: "32-bit: xchg of the lower half, a store to the upper; two emulated instructions",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "cmpxchg8b",
        summary: "32-bit: one cmpxchg8b of the whole entry; one emulated instruction",
        role: Role::Alternative,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
];

/// What only 32-bit guests have, and what they have too.
pub(super) const OF_32_BITS: (&[&str], &[&str]) =
    (&["xchg-and-store", "cmpxchg8b"], &["preserve-ad"]);
