//! The ways to page a guest's memory in on demand.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "populated",
        summary: "the host has every page already: what touching costs, and the ceiling of the others",
        role: Role::Baseline,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "kernel",
        summary: "no userfaultfd: the host's kernel fills pages with zeroes as they are touched",
        role: Role::Alternative,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Sim],
    },
    Mechanism {
        name: "uffd",
        summary: "userfaultfd: the vCPU sleeps in the fault, a reader brings pages in and wakes it",
        role: Role::Before,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "exit",
        summary: "the vCPU leaves with EFAULT (UFFD_FEATURE_SIGBUS); its own thread brings pages in",
        role: Role::After,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Sim],
    },
    Mechanism {
        name: "exit-on-missing",
        summary: "the vCPU leaves with KVM_EXIT_MEMORY_FAULT where its memslot asks for it (fix:kvm-exit-on-missing)",
        role: Role::After,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Lab, Backend::Sim],
    },
    Mechanism {
        name: "exit-gmem",
        summary: "the vCPU leaves a memslot of a closed guest_memfd with the address; the slot is swapped",
        role: Role::Alternative,
        batched: true,
        smp_safe: true,
        backends: &[Backend::Live],
    },
];
