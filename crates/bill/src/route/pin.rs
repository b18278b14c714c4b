//! The ways to pin and account memory for DMA.

use super::{Mechanism, Role};
use crate::bill::Backend;

pub(super) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "kernel",
        summary: "VFIO type1, as the kernel that is run does it",
        role: Role::Observed,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab],
    },
    Mechanism {
        name: "iommufd",
        summary: "an I/O address space of iommufd, where the kernel has it",
        role: Role::Observed,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Lab],
    },
    Mechanism {
        name: "per-page",
        summary: "pages are checked and accounted one by one: Linux until 6.17",
        role: Role::Before,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Sim],
    },
    Mechanism {
        name: "per-batch",
        summary: "a batch is taken for one large page, which it need not be: as first proposed",
        role: Role::Alternative,
        batched: false,
        smp_safe: false,
        backends: &[Backend::Live, Backend::Sim],
    },
    Mechanism {
        name: "per-folio",
        summary: "what is contiguous in the batch is taken at once: as reviewed, Linux 6.18",
        role: Role::After,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Sim],
    },
    Mechanism {
        name: "range",
        summary: "what is left of the folio is taken at once, beyond the batch: 1 GiB in one step",
        role: Role::Alternative,
        batched: false,
        smp_safe: true,
        backends: &[Backend::Live, Backend::Sim],
    },
];
