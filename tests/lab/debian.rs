//! Debian's kernel and Xen, which several tests boot or copy.

use std::path::PathBuf;

use libtest_mimic::Failed;
use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_host::cache::Cache;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::{self, KernelImage};
use pagetoll_images::xen;

/// The kernel and the ELF file of Xen of this system's suite, fetched where the cache lacks them.
pub(crate) fn obtain(cache: &Cache, stop: &Stop) -> Result<(KernelImage, PathBuf), Failed> {
    let debian = "debian";
    let kernel = kernel::obtain(
        &debian.parse()?,
        Arch::X86_64,
        cache,
        Freshness::Cached,
        stop,
    )?;
    let xen = xen::obtain(&debian.parse()?, cache, Freshness::Cached, stop)?;
    Ok((kernel, xen.elf))
}
