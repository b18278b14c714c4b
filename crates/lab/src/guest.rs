//! A guest that is not booted for a bill: which system it runs, and within which limits.

use pagetoll_bill::Arch;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;

use crate::vm::options::BootOptions;

/// A guest, by what its boot needs.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The name of the boot, for progress and logs.
    pub name: String,
    /// The processor of its machine.
    pub arch: Arch,
    /// The kernel, which is for that.
    pub kernel: KernelSource,
    /// The hypervisor; without effect where the guest runs without Xen.
    pub xen: XenSource,
    /// The CPUs of the guest: on one, the run repeats to the bit; more run in parallel.
    pub cpus: usize,
    /// How it is booted.
    pub options: BootOptions,
}
