//! The ways to pin and account memory for DMA.

use super::mechanism::mechanisms;
use super::{Description, OF_PAGES};

pub(super) const DESCRIPTION: Description = Description {
    summary: "pin memory for DMA through VFIO",
    is_vfio: true,
    examples: "\
Examples:
  pagetoll bill pin --kernel debian:trixie-backports/6.17 --kernel debian:trixie-backports/6.18
      Mapping memory for DMA, a column for each kernel
  pagetoll bill pin --trace --folio 2M
      Itemised by function
  pagetoll bill pin --on live
      The pinning loops on this CPU",
    ..OF_PAGES
};

mechanisms! {
    /// A way to pin and account memory for DMA.
    Pin by backend {
        /// VFIO type1, as the kernel that is run does it
        Kernel = "kernel" { Observed, single, safe, [Native], [Lab, Live] }
        /// an I/O address space of iommufd, where the kernel has it
        Iommufd = "iommufd" { Observed, single, safe, [Native], [Lab, Live] }
        /// pages are checked and accounted one by one: Linux until 6.17
        PerPage = "per-page" { Before, single, safe, [Native], [Live, Sim] }
        /// a batch is taken for one large page, which it need not be: as first proposed
        PerBatch = "per-batch" { Alternative, single, control, [Native], [Live, Sim] }
        /// what is contiguous in the batch is taken at once: as reviewed, Linux 6.18
        PerFolio = "per-folio" { After, single, safe, [Native], [Live, Sim] }
        /// what is left of the folio is taken at once, beyond the batch: 1 GiB in one step
        Range = "range" { Alternative, single, safe, [Native], [Live, Sim] }
    }
}
