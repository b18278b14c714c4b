//! Hypervisor, kernel and programs of a dom0.

use std::path::PathBuf;

use pagetoll_bill::{Arch, Available};
use pagetoll_host::tools::{self, Images};
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::modules::Part;
use pagetoll_images::kernel::{self, KernelImage, KernelSource};
use pagetoll_images::xen::{self, XenImage, XenSource};
use pagetoll_protocol::build;
use pagetoll_pv::plan::{Abilities, Other, Privcmd, Trace};

use pagetoll_lab_vm::counter::Counter;

/// Checks that this machine has the programs and libraries that these sources take.
///
/// # Errors
/// [`Error::MissingTools`] with every one that is missing.
pub(crate) fn check_tools(kernel: &KernelSource, xen: &XenSource) -> Result<(), Error> {
    let is_debian =
        matches!(kernel, KernelSource::Debian { .. }) || matches!(xen, XenSource::Debian { .. });
    tools::check_lab(Arch::X86_64, Images::new(is_debian))
}

/// Files that dom0s boot.
pub(crate) struct Materials {
    pub(crate) xen: XenImage,
    pub(crate) kernel: KernelImage,
    /// The kernel in the form that Xen starts.
    pub(crate) vmlinux: PathBuf,
    pub(crate) init: PathBuf,
    /// The probe module, or why there is none.
    pub(crate) probe: Available<PathBuf>,
    pub(crate) privcmd: Part,
    /// Files of a 32-bit dom0, where one is ordered.
    pub(crate) pv32: Option<Pv32>,
    /// The plugin that counts beside the clock.
    pub(crate) counter: Available<Counter>,
}

/// Files of a 32-bit dom0.
pub(crate) struct Pv32 {
    /// Its kernel, which is pagetoll's own.
    pub(crate) kernel: PathBuf,
    /// A hypervisor that starts such a guest, or why there is none.
    pub(crate) xen: Available<XenImage>,
}

impl Materials {
    /// Abilities of a dom0 that boots these files.
    pub(crate) fn abilities(&self) -> Abilities {
        let privcmd = match self.privcmd {
            Part::BuiltIn => Privcmd::BuiltIn,
            Part::Module(_) => Privcmd::Module,
            Part::Missing(_) => Privcmd::None,
        };
        let calls = privcmd != Privcmd::None;
        Abilities {
            probe: self.probe.is_ok(),
            privcmd,
            trace: calls.then_some(Trace::LAB),
            other: if calls { Other::Made } else { Other::None },
            cpus: 1,
        }
    }

    /// Fetches, checks and builds.
    ///
    /// # Errors
    /// Those of [`xen::obtain`], [`kernel::obtain`] and the builds.
    pub(crate) fn obtain(
        kernel: &KernelSource,
        xen: &XenSource,
        freshness: Freshness,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        let mut phase = surroundings.progress.begin("images", 3);
        let xen = xen::obtain(xen, cache, freshness, stop)?;
        phase.step("Linux");
        let kernel = kernel::obtain(kernel, Arch::X86_64, cache, freshness, stop)?;
        kernel.require_pv(cache)?;
        phase.step("guest programs");
        let materials = Self {
            vmlinux: kernel.vmlinux(cache, stop)?,
            init: build::INIT.build(Arch::X86_64, cache, stop)?,
            probe: build::xen_probe(&kernel.headers, cache, stop)?,
            privcmd: kernel.xen_driver("xen-privcmd")?,
            pv32: None,
            counter: Err("not needed".into()),
            xen,
            kernel,
        };
        phase.step("ready");
        Ok(materials)
    }

    /// Adds what a 32-bit dom0 is made from.
    ///
    /// # Errors
    /// Those of [`xen::pv32::obtain`] and the build of the kernel.
    pub(crate) fn obtain_pv32(
        &mut self,
        xen: &XenSource,
        freshness: Freshness,
        surroundings: Surroundings<'_>,
    ) -> Result<(), Error> {
        self.pv32 = Some(Pv32 {
            kernel: build::PV32_PROBE.build(Arch::X86_64, surroundings.cache, surroundings.stop)?,
            xen: xen::pv32::obtain(xen, &self.xen, freshness, surroundings)?,
        });
        Ok(())
    }
}
