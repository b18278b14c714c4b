//! What a dom0 is made from: hypervisor, kernel, and what runs inside.

use std::path::PathBuf;

use pagetoll_bill::{Arch, Available};
use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::tools::{self, Images};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::dom0::{self, Part};
use pagetoll_images::kernel::{self, KernelImage, KernelSource};
use pagetoll_images::xen::{self, XenImage, XenSource};
use pagetoll_protocol::build as guest;
use pagetoll_pv::plan::{Abilities, OtherDomain, Privcmd, Trace};

use crate::vm::counter::Counter;

/// Where hypervisor and kernel come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) kernel: &'a KernelSource,
    pub(crate) xen: &'a XenSource,
    pub(crate) freshness: Freshness,
}

/// Everything that boots are made from.
pub(crate) struct Materials {
    pub(crate) xen: XenImage,
    pub(crate) kernel: KernelImage,
    /// The kernel in the form that Xen starts.
    pub(crate) vmlinux: PathBuf,
    pub(crate) init: PathBuf,
    /// The probe module, or why there is none.
    pub(crate) probe: Available<PathBuf>,
    pub(crate) privcmd: Part,
    /// What a 32-bit dom0 is made from, where one is ordered.
    pub(crate) pv32: Option<Pv32>,
    /// What counts beside the clock, or why nothing does.
    pub(crate) counter: Available<Counter>,
}

/// What a 32-bit dom0 is made from.
pub(crate) struct Pv32 {
    /// Its kernel, which is pagetoll's own.
    pub(crate) kernel: PathBuf,
    /// A hypervisor that starts such a guest, or why there is none.
    pub(crate) xen: Available<XenImage>,
}

impl Materials {
    /// What a dom0 that is made from these can do.
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
            other: if calls {
                OtherDomain::Made
            } else {
                OtherDomain::None
            },
            cpus: 1,
        }
    }
}

impl Sources<'_> {
    /// What a 32-bit dom0 is made from, beside `xen`.
    ///
    /// # Errors
    /// Those of [`xen::pv32::obtain`] and the build of the kernel.
    pub(crate) fn obtain_pv32(
        self,
        xen: &XenImage,
        surroundings: Surroundings<'_>,
    ) -> Result<Pv32, Error> {
        Ok(Pv32 {
            kernel: guest::pv32_probe(surroundings.cache, surroundings.stop)?,
            xen: xen::pv32::obtain(self.xen, xen, self.freshness, surroundings)?,
        })
    }
    /// Checks that this machine has the programs and libraries that these sources take.
    ///
    /// # Errors
    /// [`Error::MissingTools`] with every one that is missing.
    pub(crate) fn check_tools(self) -> Result<(), Error> {
        let of_debian = matches!(self.kernel, KernelSource::Debian { .. })
            || matches!(self.xen, XenSource::Debian { .. });
        tools::check_lab(Arch::X86_64, Images::new(of_debian))
    }

    /// Fetches, checks and builds.
    ///
    /// # Errors
    /// Those of [`xen::obtain`], [`kernel::obtain`] and the builds.
    pub(crate) fn obtain(self, surroundings: Surroundings<'_>) -> Result<Materials, Error> {
        let Surroundings { cache, stop, .. } = surroundings;
        let mut phase = surroundings.progress.begin("images", 3);
        let xen = xen::obtain(self.xen, cache, self.freshness, stop)?;
        phase.step("Linux");
        let kernel = kernel::obtain(self.kernel, Arch::X86_64, cache, self.freshness, stop)?;
        kernel.require_pv(cache)?;
        phase.step("guest programs");
        let materials = Materials {
            vmlinux: dom0::uncompressed(&kernel.image, cache, stop)?,
            init: guest::init(Arch::X86_64, cache, stop)?,
            probe: guest::xen_probe(&kernel.headers, cache, stop)?,
            privcmd: dom0::xen_driver(&kernel, "xen-privcmd")?,
            pv32: None,
            counter: Err("not needed".into()),
            xen,
            kernel,
        };
        phase.step("ready");
        Ok(materials)
    }
}
