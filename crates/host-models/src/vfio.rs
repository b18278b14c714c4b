//! VFIO's type1 (v2) container: memory of a process, pinned, accounted and mapped for a device.
//!
//! Source: Linux's `drivers/vfio/vfio_iommu_type1.c`, as of 6.1 (before large folios were taken at once) and 6.18
//! (after). Functional: pin counts, `locked_vm`, the dma tree and the IOMMU's translations are real, and what the
//! kernel refuses is refused with the same error. Each step says what was done ([`Tolls`]); nothing has a cost here.
//!
//! Not here: dirty tracking, `VFIO_DMA_MAP_FLAG_VADDR`, v1 containers, several devices, device assignment itself.

mod batch;
mod case;
mod container;
mod dma_map;
mod domain;
mod errno;
mod frames;
mod pfn_list;
mod pin;
mod process;
mod tolls;

pub use case::{Iommu, run};
pub use container::{Argument, Container, Mapping, Unmapping};
pub use dma_map::{Dma, DmaTree};
pub use domain::{Access, Domain};
pub use errno::Errno;
pub use frames::{Folio, Frames};
pub use pfn_list::{PfnList, Vpfn};
pub use pin::Mechanism;
pub use process::{Leaf, Process};
pub use tolls::Tolls;

/// Bytes of a page, the unit of pinning and accounting.
pub const PAGE: u64 = 4096;

#[cfg(test)]
mod tests;
